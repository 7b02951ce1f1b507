"""An example of plug-ins for egrl: a method, a problem and a figure."""
