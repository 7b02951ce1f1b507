/* What places.py prints, without a reader of JSON: egrl writes one key per line, and an op's name before the rest.
   Names may be of up to 255 characters, without quotes and backslashes. */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    char line[1024], key[32], text[256], op[256] = "", head[32] = "", memory[32] = "";
    long long number, size = 0;
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (file == NULL)
        return 2;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, " \"%31[^\"]\": \"%255[^\"]\"", key, text) == 2) {
            if (!strcmp(key, "node") || !strcmp(key, "op"))
                strcpy(op, text);
            else if (!strcmp(key, "head"))
                snprintf(head, sizeof head, "%.31s", text);
            else if (!strcmp(key, "memory"))
                snprintf(memory, sizeof memory, "%.31s", text);
            else if (!strcmp(key, "weight") || !strcmp(key, "activation"))
                printf("%s %s %s\n", op, key, text);
        } else if (sscanf(line, " \"%31[^\"]\": %lld", key, &number) == 2) {
            if (!strcmp(key, "size_bytes"))
                size = number;
            else if (!strcmp(key, "offset_bytes"))
                printf("%s %s %s %lld %lld\n", op, head, memory, number, size);
        }
    }
    return fclose(file) ? 1 : 0;
}
