/* Frames that do not decode, many frames at once, and many threads. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const int32_t thread_counts[] = {0, 1, 2, -1, PCAPZST_THREADS_AUTO};
#define THREAD_COUNTS (sizeof thread_counts / sizeof *thread_counts)

/* Flips a bit of frame `index`: in the middle of its bytes, or in its checksum. */
static void flip(bytes *stored, pcapzst_frame_info frame, int is_checksum) {
    uint64_t from_start = is_checksum ? frame.physical_size - 1 : frame.physical_size / 2;
    stored->data[frame.physical_offset + from_start] ^= 0x10;
}

static int is_damage(pcapzst_status status) { return status == PCAPZST_E_ZSTD || status == PCAPZST_E_FORMAT; }

static size_t packets_before(const sample *made, uint64_t source_offset) {
    size_t count = 0;
    while (count < made->count && made->packets[count].source_offset < source_offset) count++;
    return count;
}

static void damage_is_met_where_it_is(const sample *made, bytes *stored, pcapzst_frame_info bad, uint64_t index,
                                      int is_checksum) {
    pcapzst_reader *reader = NULL;
    pcapzst_records *records = NULL;
    pcapzst_packet packet;
    pcapzst_next next;
    uint8_t *dst = room(made->source.size);
    uint64_t got = 99, behind = bad.source_offset + bad.source_size;
    int again;
    flip(stored, bad, is_checksum);
    OK(pcapzst_open_memory(stored->data, stored->size, NULL, &reader, NULL));
    CHECK(pcapzst_frame_count(reader) > index + 1);

    CHECK(is_damage(pcapzst_decode_frame(reader, index, dst, bad.source_size)));
    OK(pcapzst_decode_frame(reader, index - 1, dst, made->source.size));
    OK(pcapzst_decode_frame(reader, index + 1, dst, made->source.size));

    OK(pcapzst_read(reader, 0, dst, made->source.size, &got));
    CHECK(got == bad.source_offset && memcmp(dst, made->source.data, (size_t)got) == 0);
    got = 99;
    CHECK(is_damage(pcapzst_read(reader, bad.source_offset, dst, 10, &got)) && got == 0);
    OK(pcapzst_read(reader, behind, dst, 10, &got));
    CHECK(got == 10 && memcmp(dst, made->source.data + behind, 10) == 0);
    /* The stored bytes are for who sends them on: the content is not looked at. */
    OK(pcapzst_read_stored(reader, index, dst, made->source.size));
    CHECK(memcmp(dst, stored->data + bad.physical_offset, (size_t)bad.physical_size) == 0);

    OK(pcapzst_records_open(reader, 0, &records));
    CHECK(gives_packets(records, made, 0, packets_before(made, bad.source_offset)));
    for (again = 0; again < 3; again++) {
        memset(&packet, 0xee, sizeof packet), next = PCAPZST_AT_END;
        CHECK(is_damage(pcapzst_records_next(records, &packet, &next)));
        CHECK(next == PCAPZST_NOT_YET && is_all(&packet, 0, sizeof packet));
    }
    pcapzst_records_close(records);
    OK(pcapzst_records_open(reader, index + 1, &records));
    CHECK(gives_packets(records, made, packets_before(made, behind), made->count));
    pcapzst_records_close(records);

    CHECK(info_of(reader).state == PCAPZST_DAMAGED && is_damage(info_of(reader).fault));
    pcapzst_close(reader);
    flip(stored, bad, is_checksum);
    free(dst);
}

static void damage_names_file_frame_wanted_and_got(bytes *stored, pcapzst_frame_info bad) {
    path_name path = at("damaged.pcap.zst");
    pcapzst_reader *reader = NULL;
    uint8_t dst[16384];
    const char *words;
    char offset[24];
    /* The magic number of frame 3: found by the walk, which ends there. */
    stored->data[bad.physical_offset] ^= 0xff;
    write_file(path, stored->data, stored->size);
    stored->data[bad.physical_offset] ^= 0xff;
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    CHECK(info_of(reader).state == PCAPZST_DAMAGED && info_of(reader).fault == PCAPZST_E_FORMAT);
    CHECK(pcapzst_frame_count(reader) == 3);
    OK(pcapzst_decode_frame(reader, 2, dst, sizeof dst));
    GIVES(PCAPZST_E_FORMAT, pcapzst_refresh(reader, NULL));
    words = pcapzst_last_error();
    sprintf(offset, "%lu", (unsigned long)bad.physical_offset);
    CHECK(strstr(words, "damaged.pcap.zst") && strstr(words, "wanted") && strstr(words, "got"));
    CHECK(strstr(words, "frame 3") && strstr(words, offset));
    pcapzst_close(reader);
}

void test_damage(void) {
    sample made = make_sample(60, 1, 4);
    bytes stored = stored_capture("damage.pcap.zst", &made);
    pcapzst_reader *reader = NULL;
    pcapzst_frame_info bad;
    OK(pcapzst_open_memory(stored.data, stored.size, NULL, &reader, NULL));
    bad = frame_of(reader, 3);
    pcapzst_close(reader);
    damage_is_met_where_it_is(&made, &stored, bad, 3, 0);
    damage_is_met_where_it_is(&made, &stored, bad, 3, 1);
    damage_names_file_frame_wanted_and_got(&stored, bad);
    free(stored.data);
    free_sample(&made);
}

/* Slots in an order of their own, buffers one byte larger than needed. */
typedef struct {
    uint64_t count, *indices, *sizes;
    void **dsts;
    pcapzst_frame_info *frames;
} slots;

static slots make_slots(const pcapzst_reader *reader) {
    slots made;
    uint64_t i;
    made.count = pcapzst_frame_count(reader);
    made.indices = room((size_t)made.count * sizeof *made.indices);
    made.sizes = room((size_t)made.count * sizeof *made.sizes);
    made.dsts = room((size_t)made.count * sizeof *made.dsts);
    made.frames = room((size_t)made.count * sizeof *made.frames);
    for (i = 0; i < made.count; i++) {
        made.indices[i] = made.count - 1 - i;
        made.frames[i] = frame_of(reader, made.indices[i]);
        made.sizes[i] = made.frames[i].source_size + 1;
        made.dsts[i] = room((size_t)made.sizes[i]);
    }
    return made;
}

static void free_slots(slots *made) {
    uint64_t i;
    for (i = 0; i < made->count; i++) free(made->dsts[i]);
    free(made->dsts), free(made->indices), free(made->sizes), free(made->frames);
}

static void fill_slots(const slots *made) {
    uint64_t i;
    for (i = 0; i < made->count; i++) memset(made->dsts[i], 0xee, (size_t)made->sizes[i]);
}

static int slots_are_untouched(const slots *made) {
    uint64_t i;
    for (i = 0; i < made->count; i++)
        if (!is_all(made->dsts[i], 0xee, (size_t)made->sizes[i])) return 0;
    return 1;
}

/* Slots of which `is_bad` is 1 are zeroed, all others hold their frame; no byte behind is touched. */
static void slots_hold(const slots *made, const sample *from, const char *is_bad) {
    uint64_t i;
    for (i = 0; i < made->count; i++) {
        const uint8_t *dst = made->dsts[i];
        size_t size = (size_t)made->frames[i].source_size;
        if (is_bad[i])
            CHECK(is_all(dst, 0, size));
        else
            CHECK(memcmp(dst, from->source.data + made->frames[i].source_offset, size) == 0);
        CHECK(dst[size] == 0xee);
    }
}

static pcapzst_status decode(const pcapzst_reader *reader, const slots *made, int32_t n_threads, uint64_t *failed) {
    return pcapzst_decode_frames(reader, made->indices, made->count, made->dsts, made->sizes, n_threads, failed);
}

static void refusals_are_found_before_anything_is_written(const pcapzst_reader *reader, slots *made, int32_t threads) {
    uint64_t failed = 99, last = made->count - 1, kept = made->sizes[last];
    void *dst = made->dsts[last];
    fill_slots(made);
    made->sizes[last] = made->frames[last].source_size - 1;
    GIVES(PCAPZST_E_RANGE, decode(reader, made, threads, &failed));
    CHECK(failed == last);
    made->sizes[last] = kept;
    kept = made->indices[last], made->indices[last] = made->count, failed = 99;
    GIVES(PCAPZST_E_RANGE, decode(reader, made, threads, &failed));
    CHECK(failed == last);
    made->indices[last] = kept, made->dsts[last] = NULL, failed = 99;
    GIVES(PCAPZST_E_INVALID, decode(reader, made, threads, &failed));
    CHECK(failed == last);
    GIVES(PCAPZST_E_INVALID, decode(reader, made, threads, NULL));
    made->dsts[last] = dst, failed = 99;
    GIVES(PCAPZST_E_INVALID, decode(NULL, made, threads, &failed));
    CHECK(failed == PCAPZST_SLOT_NONE);
    failed = 99;
    GIVES(PCAPZST_E_INVALID, pcapzst_decode_frames(reader, NULL, 2, made->dsts, made->sizes, threads, &failed));
    CHECK(failed == PCAPZST_SLOT_NONE);
    GIVES(PCAPZST_E_INVALID, pcapzst_decode_frames(reader, made->indices, 2, NULL, made->sizes, threads, &failed));
    GIVES(PCAPZST_E_INVALID, pcapzst_decode_frames(reader, made->indices, 2, made->dsts, NULL, threads, &failed));
    GIVES(PCAPZST_E_RANGE,
          pcapzst_decode_frames(reader, made->indices, UINT64_MAX, made->dsts, made->sizes, threads, &failed));
    CHECK(failed == PCAPZST_SLOT_NONE);
    failed = 99;
    OK(pcapzst_decode_frames(reader, NULL, 0, NULL, NULL, threads, &failed));
    CHECK(failed == PCAPZST_SLOT_NONE);
    CHECK(slots_are_untouched(made));
}

void test_batch(void) {
    sample made = make_sample(400, 0, 5);
    bytes stored = stored_capture("batch.pcap.zst", &made);
    pcapzst_reader *good = NULL, *bad = NULL;
    slots all;
    char *is_bad;
    size_t i;
    OK(pcapzst_open_memory(stored.data, stored.size, NULL, &good, NULL));
    all = make_slots(good);
    CHECK(all.count > 20);
    is_bad = room((size_t)all.count);
    memset(is_bad, 0, (size_t)all.count);
    for (i = 0; i < THREAD_COUNTS; i++) {
        uint64_t failed = 99;
        fill_slots(&all);
        OK(decode(good, &all, thread_counts[i], &failed));
        CHECK(failed == PCAPZST_SLOT_NONE);
        slots_hold(&all, &made, is_bad);
        OK(decode(good, &all, thread_counts[i], NULL));
        refusals_are_found_before_anything_is_written(good, &all, thread_counts[i]);
    }
    pcapzst_close(good);

    /* Slot 4 fails, and others behind it: the first one by slot is told, whichever thread meets which one first. */
    is_bad[4] = is_bad[5] = is_bad[17] = 1;
    flip(&stored, all.frames[4], 0);
    flip(&stored, all.frames[5], 1);
    flip(&stored, all.frames[17], 1);
    for (i = 0; i < THREAD_COUNTS; i++) {
        uint64_t failed = 99;
        OK(pcapzst_open_memory(stored.data, stored.size, NULL, &bad, NULL));
        fill_slots(&all);
        CHECK(is_damage(decode(bad, &all, thread_counts[i], &failed)));
        CHECK(failed == 4);
        slots_hold(&all, &made, is_bad);
        CHECK(is_damage(decode(bad, &all, thread_counts[i], NULL)));
        pcapzst_close(bad);
    }
    free_slots(&all);
    free(is_bad);
    free(stored.data);
    free_sample(&made);
}

typedef struct {
    const pcapzst_reader *reader;
    const sample *made;
    unsigned number;
} worker;

static void *reads_decodes_and_iterates(void *argument) {
    const worker *self = argument;
    const pcapzst_reader *reader = self->reader;
    const sample *made = self->made;
    uint64_t count = pcapzst_frame_count(reader), turn, found;
    uint8_t *dst = room(made->source.size);
    pcapzst_records *records = NULL;
    CHECK(count > 20 && reads_as(reader, made->source.data, made->source.size));
    for (turn = 0; turn < count; turn++) {
        uint64_t index = (turn * (self->number + 1) + self->number) % count;
        pcapzst_frame_info frame = frame_of(reader, index);
        OK(pcapzst_decode_frame(reader, index, dst, made->source.size));
        CHECK(memcmp(dst, made->source.data + frame.source_offset, (size_t)frame.source_size) == 0);
        OK(pcapzst_find_frame(reader, frame.source_offset, &found));
        CHECK(found == index && info_of(reader).frames == count);
        CHECK(turn % 7 != 0 || reads_as(reader, made->source.data, made->source.size));
        OK(pcapzst_refresh(reader, NULL));
        /* The words are the thread's own. */
        GIVES(PCAPZST_E_RANGE, pcapzst_find_frame(reader, 1000000 + self->number, &found));
        sprintf((char *)dst, "%u", 1000000 + self->number);
        CHECK(strstr(pcapzst_last_error(), (char *)dst));
    }
    OK(pcapzst_records_open(reader, 0, &records));
    CHECK(gives_packets(records, made, 0, made->count) && gives_next(records, PCAPZST_AT_END));
    pcapzst_records_close(records);
    free(dst);
    return NULL;
}

void test_threads(void) {
    sample made = make_sample(400, 1, 6);
    path_name path = at("threads.pcap.zst");
    /* Room for a few frames only, so that threads drop what others want. */
    pcapzst_reader_options options = {40000, 16000};
    pcapzst_reader *reader = NULL;
    pthread_t threads[8];
    worker workers[8];
    unsigned i;
    write_capture(path, &made);
    OK(pcapzst_open(path.text, &options, &reader, NULL));
    for (i = 0; i < 8; i++) {
        workers[i].reader = reader, workers[i].made = &made, workers[i].number = i;
        CHECK(pthread_create(&threads[i], NULL, reads_decodes_and_iterates, &workers[i]) == 0);
    }
    for (i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    pcapzst_close(reader);
    free_sample(&made);
}
