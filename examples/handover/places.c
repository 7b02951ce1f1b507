/* What places.py prints, without a reader of JSON: egrl writes one key per line, and an op's name before the rest.
   Names may be of up to 255 characters, without quotes and backslashes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int refuse(const char *file, const char *why) {
    fprintf(stderr, "places: %s: expected best_mapping.json or allocation.json, found %s\n", file, why);
    return 2;
}

int main(int argc, char **argv) {
    char line[1024], key[32], text[256], op[256] = "", head[32] = "", memory[32] = "";
    long long number, size = 0, rows = 0;
    if (argc != 2)
        return refuse("FILE", argc < 2 ? "none" : "several");
    FILE *file = fopen(argv[1], "r");
    if (file == NULL)
        return refuse(argv[1], strerror(errno));
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, " \"%31[^\"]\": \"%255[^\"]\"", key, text) == 2) {
            if (!strcmp(key, "node") || !strcmp(key, "op"))
                strcpy(op, text);
            else if (!strcmp(key, "head"))
                snprintf(head, sizeof head, "%.31s", text);
            else if (!strcmp(key, "memory"))
                snprintf(memory, sizeof memory, "%.31s", text);
            else if (!strcmp(key, "weight") || !strcmp(key, "activation"))
                rows += printf("%s %s %s\n", op, key, text) > 0;
        } else if (sscanf(line, " \"%31[^\"]\": %lld", key, &number) == 2) {
            if (!strcmp(key, "size_bytes"))
                size = number;
            else if (!strcmp(key, "offset_bytes"))
                rows += printf("%s %s %s %lld %lld\n", op, head, memory, number, size) > 0;
        }
    }
    if (ferror(file))
        return refuse(argv[1], strerror(errno));
    return fclose(file) ? 1 : rows ? 0 : refuse(argv[1], "no tensor");
}
