"""One page a run: what a run folder holds, as sections of data (`hwsim.sections`), drawn as HTML; and traces.

`page` puts a page together of `changes`, `profiled`, `memory`, `searching` and more; `render`
makes HTML of each kind of section, with plain SVG and a little script: a plotting library would be 1 to 4 MB in each
page and show nothing without JavaScript.
"""
