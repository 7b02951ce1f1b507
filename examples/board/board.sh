#!/bin/sh
# A board behind a shell script: egrl run … --evaluator "sh examples/board/board.sh COMMAND"
# COMMAND FILE runs the mapping in FILE on the board and prints the seconds that an inference took.
file=$(mktemp) && trap 'rm -f "$file"' EXIT
while read -r line; do
    id=$(printf '%s' "$line" | sed 's/^{"id": \([0-9]*\),.*/\1/')
    printf '%s\n' "$line" > "$file"
    if seconds=$("$@" "$file"); then
        printf '{"id": %s, "latency_s": %s}\n' "$id" "$seconds"
    else
        printf '{"id": %s, "error": "exit code %s"}\n' "$id" "$?"
    fi
done
