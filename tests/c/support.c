#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *folder;

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static unsigned long checks, failures;

void check_that(int is_right, const char *file, int line, const char *text) {
    pthread_mutex_lock(&counting);
    checks++;
    failures += !is_right;
    pthread_mutex_unlock(&counting);
    if (!is_right) printf("%s:%d: FAILED: %s\n", file, line, text);
}

void check_status(pcapzst_status got, pcapzst_status wanted, const char *file, int line, const char *text) {
    check_that(got == wanted, file, line, text);
    if (got != wanted) {
        const char *words = got == PCAPZST_OK ? "" : pcapzst_last_error();
        printf("    wanted %d, got %d (%s) %s\n", (int)wanted, (int)got, pcapzst_status_message((int32_t)got), words);
    }
}

int all_right(void) {
    printf("%lu checks, %lu failed\n", checks, failures);
    return failures == 0;
}

static void give_up(const char *what, const char *path) {
    printf("cannot %s %s\n", what, path);
    exit(1);
}

static path_name joined(const char *first, const char *second, const char *third) {
    path_name path;
    int length = snprintf(path.text, sizeof path.text, "%s%s%s", first, second, third);
    if (length < 0 || (size_t)length >= sizeof path.text) give_up("hold the name", first);
    return path;
}

path_name at(const char *name) { return joined(folder, "/", name); }
path_name partial_of(path_name path) { return joined(path.text, ".partial", ""); }
int exists(path_name path) { return access(path.text, F_OK) == 0; }

void *room(size_t size) {
    void *data = malloc(size ? size : 1);
    if (!data) give_up("have", "memory");
    return data;
}

bytes read_file(path_name path) {
    FILE *file = fopen(path.text, "rb");
    long size;
    bytes all;
    if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET))
        give_up("read", path.text);
    all.size = (size_t)size;
    all.data = room(all.size);
    if (fread(all.data, 1, all.size, file) != all.size) give_up("read", path.text);
    fclose(file);
    return all;
}

static void put(path_name path, const char *mode, const void *data, size_t size) {
    FILE *file = fopen(path.text, mode);
    if (!file || fwrite(data, 1, size, file) != size || fclose(file)) give_up("write", path.text);
}

void write_file(path_name path, const void *data, size_t size) { put(path, "wb", data, size); }
void append_file(path_name path, const void *data, size_t size) { put(path, "ab", data, size); }

static void put_u32(uint8_t *to, uint32_t value) {
    int i;
    for (i = 0; i < 4; i++) to[i] = (uint8_t)(value >> (8 * i));
}

sample make_sample(size_t count, int is_nanoseconds, uint32_t seed) {
    sample made;
    uint32_t noise = seed * 2654435761u + 1;
    size_t i, j, end = GLOBAL_HEADER;
    made.count = count;
    made.is_nanoseconds = is_nanoseconds;
    made.packets = room(count * sizeof *made.packets);
    made.source.data = room(GLOBAL_HEADER + count * (RECORD_HEADER + 1500));
    memset(made.source.data, 0, GLOBAL_HEADER);
    put_u32(made.source.data, is_nanoseconds ? 0xa1b23c4du : 0xa1b2c3d4u);
    put_u32(made.source.data + 4, 2 | 4u << 16);
    put_u32(made.source.data + 16, SNAPLEN);
    put_u32(made.source.data + 20, LINK_TYPE);
    for (i = 0; i < count; i++) {
        made_packet *packet = &made.packets[i];
        uint32_t unit = is_nanoseconds ? 1 : 1000;
        uint32_t seconds = 1700000000u + seed + (uint32_t)(i / 10);
        uint32_t steps = (uint32_t)(i % 10) * (1000000u / (is_nanoseconds ? 1 : 1000)) + 7;
        uint8_t *record = made.source.data + end;
        packet->ts_ns = seconds * (uint64_t)1000000000 + steps * (uint64_t)unit;
        packet->source_offset = end;
        /* One packet in eleven is empty: its data must not be NULL either. */
        packet->captured_length = i % 11 == 5 ? 0 : (uint32_t)(i * 37 % 1400 + 1);
        packet->original_length = packet->captured_length + (uint32_t)(i % 3);
        put_u32(record, seconds);
        put_u32(record + 4, steps);
        put_u32(record + 8, packet->captured_length);
        put_u32(record + 12, packet->original_length);
        for (j = 0; j < packet->captured_length; j++) {
            noise ^= noise << 13;
            noise ^= noise >> 17;
            noise ^= noise << 5;
            record[RECORD_HEADER + j] = j % 4 ? (uint8_t)i : (uint8_t)noise;
        }
        end += RECORD_HEADER + packet->captured_length;
    }
    made.source.size = end;
    return made;
}

void free_sample(sample *made) {
    free(made->packets);
    free(made->source.data);
}

const uint8_t *packet_data(const sample *made, size_t index) {
    return made->source.data + made->packets[index].source_offset + RECORD_HEADER;
}

void header_of(pcapzst_writer *writer, const sample *made) {
    OK(pcapzst_writer_header(writer, LINK_TYPE, SNAPLEN, made->is_nanoseconds));
}

void add_packets(pcapzst_writer *writer, const sample *made, size_t from, size_t to) {
    size_t i;
    for (i = from; i < to; i++) {
        const made_packet *packet = &made->packets[i];
        OK(pcapzst_writer_add(writer, packet->ts_ns, packet_data(made, i), packet->captured_length,
                              packet->original_length));
    }
}

void write_capture(path_name path, const sample *made) {
    pcapzst_writer_options options = {0, PCAPZST_WRITER_REPLACE, 4096, 0};
    pcapzst_writer *writer = NULL;
    size_t done = 0, piece;
    OK(pcapzst_writer_create(path.text, &options, &writer));
    if (!writer) give_up("create", path.text);
    /* Pieces that end anywhere, within the global header first. */
    for (piece = 5; done < made->source.size; done += piece, piece = piece * 2 + 1) {
        if (piece > made->source.size - done) piece = made->source.size - done;
        OK(pcapzst_writer_write(writer, made->source.data + done, piece));
    }
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
}

bytes stored_capture(const char *name, const sample *made) {
    path_name path = at(name);
    bytes all;
    write_capture(path, made);
    all = read_file(path);
    unlink(path.text);
    return all;
}

size_t header_frame_end(const bytes *stored) {
    const uint8_t *block = stored->data + 20;
    /* A raw block and a compressed one are as long as they say. */
    return 23 + ((block[0] | (size_t)block[1] << 8 | (size_t)block[2] << 16) >> 3) + 4;
}

pcapzst_info info_of(const pcapzst_reader *reader) {
    pcapzst_info info;
    memset(&info, 0xee, sizeof info);
    OK(pcapzst_get_info(reader, &info));
    return info;
}

pcapzst_frame_info frame_of(const pcapzst_reader *reader, uint64_t index) {
    pcapzst_frame_info info = {0, 0, 0, 0};
    OK(pcapzst_frame_info_at(reader, index, &info));
    return info;
}

pcapzst_written written_of(const pcapzst_writer *writer) {
    pcapzst_written written = {0, 0, 0, 0, 0};
    OK(pcapzst_writer_get_written(writer, &written));
    return written;
}

int reads_as(const pcapzst_reader *reader, const uint8_t *source, size_t size) {
    uint8_t *got = room(size + 1);
    uint64_t count = 99;
    int is_same = pcapzst_read(reader, 0, got, size + 1, &count) == PCAPZST_OK && count == size &&
                  memcmp(got, source, size) == 0;
    free(got);
    return is_same;
}

int gives_packets(pcapzst_records *records, const sample *made, size_t from, size_t to) {
    size_t i;
    for (i = from; i < to; i++) {
        const made_packet *wanted = &made->packets[i];
        pcapzst_packet got;
        pcapzst_next next = PCAPZST_AT_END;
        if (pcapzst_records_next(records, &got, &next) != PCAPZST_OK || next != PCAPZST_PACKET || !got.data ||
            got.ts_ns != wanted->ts_ns || got.source_offset != wanted->source_offset ||
            got.captured_length != wanted->captured_length || got.original_length != wanted->original_length ||
            memcmp(got.data, packet_data(made, i), got.captured_length) != 0) {
            printf("packet %lu is another one, or none\n", (unsigned long)i);
            return 0;
        }
    }
    return 1;
}

int gives_next(pcapzst_records *records, pcapzst_next wanted) {
    pcapzst_packet packet;
    pcapzst_next next = PCAPZST_PACKET;
    return pcapzst_records_next(records, &packet, &next) == PCAPZST_OK && next == wanted;
}

int is_all(const void *data, uint8_t value, size_t size) {
    const uint8_t *byte = data;
    size_t i;
    for (i = 0; i < size; i++)
        if (byte[i] != value) return 0;
    return 1;
}
