/* A linear rule places the tensors of a network in the memories of a chip, in C99 with libm alone. rule.py is the same.

   It reads the text that describe.py writes. It prints for each tensor the number of its op, which tensor of the op it
   is, and the number of its memory, 0 being the slowest. Numbers are doubles; features and scores are rounded to float. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define NEW(count, type) ((type *)calloc((size_t)(count) + 1, sizeof(type)))
#define FEATURES(X) \
    X(one) X(saved_of_mean) X(saved_of_compute) X(bytes) X(lifetime) X(bytes_times_lifetime) X(fullest_step) \
    X(traffic_of_op) X(traffic_of_readers) X(all_weights) X(fullest_of_all) X(idle_before) X(compute_of_mean) \
    X(position) X(gain_alone) X(loss_alone) X(gains_alone) X(loses_alone) X(fetched_of_idle) X(fetch_of_idle_4) \
    X(fetch_of_idle_16) X(reuse) X(bandwidth) X(share_of_capacity) X(is_output) X(rearranges) X(wait) X(wait_after) \
    X(relief) X(relief_of_bytes) X(relieves) X(idle_in_all) X(wait_in_all) X(fetched_ahead) X(wait_small) \
    X(wait_after_small) X(relief_small) X(relief_of_bytes_small) X(relieves_small) X(gain_of_bytes) X(loss_of_bytes)
#define NUMBER(name) f_##name,
#define TEXT(name) #name,
enum { FEATURES(NUMBER) F };
static const char *const NAMES[F] = {FEATURES(TEXT)};
enum { WEIGHT, ACTIVATION, MEMORIES = 8 };

typedef long long Bytes;
typedef struct {
    double compute_s;
    Bytes weight, weight_read, steps, passes, activation, written, external;
    int is_output, rearranges, last;
} Op;
typedef struct {
    int source, reader;
    Bytes bytes;
} Edge;
typedef struct {
    double inputs, busy, slow, readers, idle_before, fetched, gain, loss;
    Bytes live, read;
} Seen;
typedef struct {
    double *wait, *after, *ahead, all_wait, all_idle;
} Stream;
typedef struct {
    int op, head, first, last, memory;
    Bytes size, moved;
    float score[MEMORIES], priority;
} Tensor;

static int memories, into, ops, edges;
static Bytes capacity[MEMORIES];
static double Bps[MEMORIES], launch_s, mean_s;
static float coefficient[2][2][F], free_weight;
static Op *op;
static Edge *edge;
static Seen *seen;

static void refuse(const char *file, const char *expected) {
    fprintf(stderr, "rule: %s: expected %s, found something else\n", file, expected);
    exit(2);
}

static void read_description(const char *name) {
    char text[32];
    FILE *file = fopen(name, "r");
    if (!file || fscanf(file, " memories %d into %d launch_s %lf", &memories, &into, &launch_s) != 3 || memories < 2 ||
        memories > MEMORIES || into < 1 || into >= memories)
        refuse(name, "a file that describe.py wrote");
    for (int m = 0; m < memories; m++)
        if (fscanf(file, "%lld %lf", &capacity[m], &Bps[m]) != 2)
            refuse(name, "bytes and bytes per second of each memory");
    if (fscanf(file, " ops %d edges %d", &ops, &edges) != 2 || ops < 1 || edges < 0)
        refuse(name, "numbers of ops and edges");
    op = NEW(ops, Op), edge = NEW(edges, Edge), seen = NEW(ops, Seen);
    for (int i = 0; i < ops; op[i].last = i, i++)
        if (fscanf(file, "%lf %lld %lld %lld %lld %lld %lld %lld %d %d", &op[i].compute_s, &op[i].weight, &op[i].weight_read,
                   &op[i].steps, &op[i].passes, &op[i].activation, &op[i].written, &op[i].external, &op[i].is_output,
                   &op[i].rearranges) != 10)
            refuse(name, "ten numbers of each op");
    for (int e = 0; e < edges; e++)
        if (fscanf(file, "%d %d %lld", &edge[e].source, &edge[e].reader, &edge[e].bytes) != 3 || edge[e].source < 0 ||
            edge[e].source >= edge[e].reader || edge[e].reader >= ops)
            refuse(name, "source, reader and bytes of each edge");
    for (int k = 0; k < F; k++)
        if (fscanf(file, "%31s %f %f %f %f", text, &coefficient[WEIGHT][0][k], &coefficient[WEIGHT][1][k],
                   &coefficient[ACTIVATION][0][k], &coefficient[ACTIVATION][1][k]) != 5 || strcmp(text, NAMES[k]))
            refuse(name, NAMES[k]);
    if (fscanf(file, " free %f", &free_weight) != 1 || fclose(file))
        refuse(name, "free");
}

/* What does not depend on the memory: times of ops with all tensors in the slowest memory, and what is live. */
static void look(void) {
    double before = 0, fetched = 0;
    for (int e = 0; e < edges; e++) {
        seen[edge[e].reader].inputs += (double)edge[e].bytes;
        seen[edge[e].source].read += edge[e].bytes;
        op[edge[e].source].last = MOST(op[edge[e].source].last, edge[e].reader);
    }
    for (int i = 0; i < ops; i++) {
        Seen *s = &seen[i];
        s->busy = MOST(op[i].compute_s + launch_s, 1e-30);
        s->slow = (op[i].weight_read * op[i].steps + op[i].written + s->inputs + op[i].external) / Bps[0];
        s->idle_before = before, before += MOST(s->busy - (op[i].written + s->inputs) / Bps[0], 0.0);
        s->fetched = fetched += op[i].weight_read / Bps[0];
        mean_s += MOST(s->busy, s->slow + launch_s) / ops;
        for (int step = i; step <= op[i].last; step++)
            seen[step].live += op[i].activation;
    }
    for (int e = 0; e < edges; e++)
        seen[edge[e].source].readers =
            MOST(seen[edge[e].source].readers, seen[edge[e].reader].slow / seen[edge[e].reader].busy);
}

/* Seconds that an op gains if so many bytes of its traffic are in a memory and all else in the slowest one. */
static double gain_of(int i, Bytes moved, int memory) {
    double slow = 1 / Bps[0], fast = 1 / Bps[memory];
    double rest = MOST(op[i].compute_s, seen[i].slow - moved * slow);
    return MOST(op[i].compute_s, seen[i].slow) - MOST(rest, moved * fast);
}

/* Seconds that an op loses if so many bytes of its traffic are in the slowest memory and all else in some other. */
static double loss_of(int i, Bytes moved, int memory) {
    double slow = 1 / Bps[0], fast = 1 / Bps[memory], outside = op[i].external * slow;
    double bytes = op[i].weight_read * op[i].steps + op[i].written + seen[i].inputs;
    double all_fast = MOST(op[i].compute_s, MOST(bytes * fast, outside));
    double rest = MOST(op[i].compute_s, (bytes - moved) * fast);
    return MOST(rest, moved * slow + outside) - all_fast;
}

/* Weights are fetched in order, ahead of their ops as far as `buffer` seconds of the slowest memory have room. */
static Stream streamed(int memory, double buffer) {
    Stream s = {NEW(ops, double), NEW(ops, double), NEW(ops, double), 0, 0};
    double left = 0, fetched = 0, later = 0;
    for (int i = 0; i < ops; i++)
        left += op[i].passes > 0 ? op[i].weight_read / Bps[0] : 0;
    for (int i = 0; i < ops; i++) {
        double fetch = op[i].passes > 0 ? op[i].weight_read / Bps[0] : 0, outside = op[i].external / Bps[0];
        double had = LEAST(fetch, fetched), rest = fetch - had;
        double quiet = MOST(seen[i].busy, (op[i].written + seen[i].inputs) / Bps[memory]);
        double takes = MOST(quiet, rest + outside), idle = MOST(0.0, takes - rest - outside);
        fetched -= had, left -= fetch;
        double more = MOST(0.0, LEAST(idle, LEAST(buffer - fetched, left - fetched)));
        fetched += more;
        s.wait[i] = takes - quiet, s.ahead[i] = fetched;
        s.all_wait += s.wait[i], s.all_idle += idle - more;
    }
    for (int i = ops - 1; i >= 0; i--)
        s.after[i] = later += s.wait[i];
    return s;
}

static double scaled(double ratio) {
    return LEAST(MOST(log2(MOST(ratio, 1e-6)), -16.0), 16.0) / 4;
}

static double idle_within(int i, int window) {
    return seen[i].idle_before - seen[i > window ? i - window : 0].idle_before;
}

/* The five features of a stream, from `f` on. */
static void look_at_stream(double *f, const Stream *s, const Tensor *t, double held) {
    double relief = LEAST(t->moved / Bps[0], s->after[t->op]);
    f[0] = scaled(s->wait[t->op] / mean_s + 1e-3);
    f[1] = scaled(s->after[t->op] / mean_s + 1e-3);
    f[2] = scaled(relief / mean_s + 1e-3);
    f[3] = scaled(relief / held / mean_s + 1e-3);
    f[4] = relief > 0;
}

/* All features of putting a tensor in a memory; `s` are streams with all of the buffer, and with a quarter of it. */
static void look_at(double *f, const Tensor *t, int memory, const Stream s[2], double all_weights, double fullest) {
    double total = 0, held_steps = (t->last - t->first + 1) / (double)ops, room = (double)capacity[memory];
    double held = t->size * held_steps / room, gain = seen[t->op].gain, loss = seen[t->op].loss, fetch;
    double buffer = capacity[into] / Bps[0], saved = t->moved * (1 / Bps[0] - 1 / Bps[memory]);
    Bytes live = 0;
    const Seen *own = &seen[t->op];
    for (int step = t->first; step <= t->last; step++)
        live = MOST(live, seen[step].live);
    for (int m = 1; m < memories; m++)
        total += (double)capacity[m];
    f[f_one] = 1;
    f[f_saved_of_mean] = scaled(saved / mean_s);
    f[f_saved_of_compute] = scaled(saved / own->busy);
    f[f_bytes] = scaled(t->size / room);
    f[f_lifetime] = scaled(held_steps);
    f[f_bytes_times_lifetime] = scaled(held);
    f[f_fullest_step] = scaled(live / room);
    f[f_traffic_of_op] = scaled(own->slow / own->busy);
    f[f_all_weights] = scaled(all_weights / room);
    f[f_fullest_of_all] = scaled(fullest / room);
    f[f_compute_of_mean] = scaled(own->busy / mean_s);
    f[f_position] = t->op / (double)ops;
    f[f_reuse] = scaled(MOST(t->moved, 1) / (double)t->size);
    f[f_bandwidth] = scaled(Bps[memory] / Bps[0]);
    f[f_share_of_capacity] = scaled(room / total);
    f[f_is_output] = op[t->op].is_output;
    if (t->head == WEIGHT) {
        fetch = op[t->op].weight_read / Bps[0];
        f[f_idle_before] = scaled((own->idle_before + 1e-12) / mean_s);
        f[f_fetched_of_idle] = scaled(own->fetched / (own->idle_before + 1e-9 * mean_s + 1e-15));
        f[f_fetch_of_idle_4] = scaled(fetch / (idle_within(t->op, 4) + 1e-9 * mean_s));
        f[f_fetch_of_idle_16] = scaled(fetch / (idle_within(t->op, 16) + 1e-9 * mean_s));
        gain = gain_of(t->op, t->moved, memory), loss = loss_of(t->op, t->moved, memory);
    } else {
        f[f_traffic_of_readers] = scaled(MOST(own->readers, 1e-3));
        f[f_rearranges] = op[t->op].rearranges;
    }
    f[f_gain_alone] = scaled(gain / mean_s + 1e-4), f[f_gains_alone] = gain / mean_s > 0;
    f[f_loss_alone] = scaled(loss / mean_s + 1e-4), f[f_loses_alone] = loss / mean_s > 0;
    f[f_gain_of_bytes] = scaled(gain / mean_s / held + 1e-4);
    f[f_loss_of_bytes] = scaled(loss / mean_s / held + 1e-4);
    look_at_stream(f + f_wait, &s[0], t, held);
    look_at_stream(f + f_wait_small, &s[1], t, held);
    f[f_idle_in_all] = scaled(s[0].all_idle / mean_s + 1e-3);
    f[f_wait_in_all] = scaled(s[0].all_wait / mean_s + 1e-3);
    f[f_fetched_ahead] = scaled(s[0].ahead[t->op] / buffer + 1e-3);
}

/* Scores of all tensors in one memory. Between the slow and the fast end, coefficients are interpolated. */
static void score(Tensor *tensor, int count, int memory) {
    double fast = memories > 2 ? (float)((memory - 1) / (double)(memories - 2)) : 1, all_weights = 0, fullest = 0;
    double slow = memories > 2 ? (float)(1 - (memory - 1) / (double)(memories - 2)) : 0;
    double buffer = capacity[into] / Bps[0];
    Stream s[2] = {streamed(memory, buffer), streamed(memory, 0.25 * buffer)};
    for (int i = 0; i < ops; i++) {
        all_weights += (double)op[i].weight, fullest = MOST(fullest, (double)seen[i].live);
        seen[i].gain = seen[i].loss = 0;
    }
    for (int e = 0; e < edges; e++) {
        seen[edge[e].source].gain += gain_of(edge[e].reader, edge[e].bytes, memory);
        seen[edge[e].source].loss += loss_of(edge[e].reader, edge[e].bytes, memory);
    }
    for (int i = 0; i < ops; i++) {
        seen[i].gain = gain_of(i, op[i].written, memory) + seen[i].gain;
        seen[i].loss = loss_of(i, op[i].written, memory) + seen[i].loss;
    }
    for (Tensor *t = tensor; t < tensor + count; t++) {
        double f[F] = {0}, sum = 0;
        look_at(f, t, memory, s, all_weights, fullest);
        for (int k = 0; k < F; k++)
            sum += (slow * coefficient[t->head][0][k] + fast * coefficient[t->head][1][k]) * (float)f[k];
        t->score[memory] = (float)sum;
        t->priority = memory == 1 ? t->score[1] : MOST(t->priority, t->score[memory]);
    }
    for (int k = 0; k < 2; k++)
        free(s[k].wait), free(s[k].after), free(s[k].ahead);
}

static int by_priority(const void *a, const void *b) {
    const Tensor *x = *(Tensor *const *)a, *y = *(Tensor *const *)b;
    return x->priority != y->priority ? (x->priority < y->priority ? 1 : -1) : (x > y) - (x < y);
}

/* The memory with the best score above 0, the faster of equal ones, that still has room; 0 if there is none. */
static int memory_for(const Tensor *t, Bytes *const used[], const Bytes budget[]) {
    int best = 0;
    for (int m = memories - 1; m > 0; m--) {
        Bytes most = 0;
        for (int step = t->first; step <= t->last; step++)
            most = MOST(most, used[m][step]);
        if (t->score[m] > t->score[best] && most + t->size <= budget[m])
            best = m;
    }
    return best;
}

static void place(Tensor *tensor, int count) {
    Bytes *used[MEMORIES], budget[MEMORIES];
    Tensor **order = NEW(count, Tensor *);
    for (int m = 0; m < memories; m++)
        used[m] = NEW(ops, Bytes), budget[m] = capacity[m];
    /* 0 to a half, and exactly 0 from about free < -2 on: tensors may fill the memory. */
    double share = 1 / (1 + exp(-2 * LEAST(MOST((double)free_weight, -30.0), 30.0)));
    share = 0.5 * MOST(share - 0.02, 0.0) / (1 - 0.02);
    budget[into] = (Bytes)floor((double)capacity[into] * (1 - share));
    for (int k = 0; k < count; k++)
        order[k] = &tensor[k];
    qsort(order, (size_t)count, sizeof *order, by_priority);
    for (int k = 0; k < count; k++) {
        Tensor *t = order[k];
        t->memory = memory_for(t, used, budget);
        for (int step = t->first; step <= t->last; step++)
            used[t->memory][step] += t->size;
    }
}

int main(int argc, char **argv) {
    static const char *const HEADS[] = {"weight", "activation"};
    int count = 0;
    read_description(argc == 2 ? argv[1] : "FILE");
    look();
    Tensor *tensor = NEW(2 * ops, Tensor);
    for (int i = 0; i < ops; i++) {
        Op *o = &op[i];
        if (o->weight)
            tensor[count++] = (Tensor){.op = i, .last = ops - 1, .size = o->weight, .moved = o->weight_read * o->steps};
        if (o->activation)
            tensor[count++] = (Tensor){.op = i, .head = ACTIVATION, .first = i, .last = o->last, .size = o->activation,
                                       .moved = o->written + seen[i].read};
    }
    for (int m = 1; m < memories; m++)
        score(tensor, count, m);
    place(tensor, count);
    for (int k = 0; k < count; k++)
        printf("%d %s %d\n", tensor[k].op, HEADS[tensor[k].head], tensor[k].memory);
    return 0;
}
