/* Packets one after the other, and captures that grow under a reader. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* First bytes of a file by which it is known: docs/C_LIBRARY.md. */
enum { CHECKED_START = 4096 };

static void packets_come_as_they_were_added(int is_nanoseconds) {
    sample made = make_sample(60, is_nanoseconds, 7);
    path_name path = at("added.pcap.zst");
    pcapzst_writer_options options = {0, PCAPZST_WRITER_REPLACE, 4096, 0};
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    pcapzst_records *records = NULL, *second = NULL;
    uint64_t index, count;
    OK(pcapzst_writer_create(path.text, &options, &writer));
    header_of(writer, &made);
    add_packets(writer, &made, 0, made.count);
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    CHECK(reads_as(reader, made.source.data, made.source.size));
    count = pcapzst_frame_count(reader);
    OK(pcapzst_records_open(reader, 0, &records));
    OK(pcapzst_records_open(reader, 0, &second));
    CHECK(gives_packets(records, &made, 0, 30));
    CHECK(gives_packets(second, &made, 0, made.count) && gives_next(second, PCAPZST_AT_END));
    pcapzst_records_close(second);
    for (index = 0; index < count; index++) {
        size_t first = 0;
        while (made.packets[first].source_offset < frame_of(reader, index).source_offset) first++;
        OK(pcapzst_records_open(reader, index, &second));
        CHECK(gives_packets(second, &made, first, made.count) && gives_next(second, PCAPZST_AT_END));
        pcapzst_records_close(second);
    }
    OK(pcapzst_records_open(reader, count, &second));
    CHECK(gives_next(second, PCAPZST_AT_END));
    pcapzst_records_close(second);
    /* It outlives its reader. */
    pcapzst_close(reader);
    CHECK(gives_packets(records, &made, 30, made.count));
    CHECK(gives_next(records, PCAPZST_AT_END) && gives_next(records, PCAPZST_AT_END));
    pcapzst_records_close(records);
    free_sample(&made);
}

static void records_take_no_null(void) {
    sample made = make_sample(5, 0, 8);
    bytes stored = stored_capture("nulls.pcap.zst", &made);
    pcapzst_reader *reader = NULL;
    pcapzst_records *records = NULL, *some_records;
    pcapzst_packet packet;
    pcapzst_next next;
    OK(pcapzst_open_memory(stored.data, stored.size, NULL, &reader, NULL));
    GIVES(PCAPZST_E_INVALID, pcapzst_records_open(reader, 0, NULL));
    some_records = (pcapzst_records *)&made;
    GIVES(PCAPZST_E_INVALID, pcapzst_records_open(NULL, 0, &some_records));
    CHECK(!some_records);
    some_records = (pcapzst_records *)&made;
    GIVES(PCAPZST_E_RANGE, pcapzst_records_open(reader, pcapzst_frame_count(reader) + 1, &some_records));
    CHECK(!some_records);
    some_records = (pcapzst_records *)&made;
    GIVES(PCAPZST_E_RANGE, pcapzst_records_open(reader, UINT64_MAX, &some_records));
    CHECK(!some_records);
    OK(pcapzst_records_open(reader, 0, &records));
    memset(&packet, 0xee, sizeof packet), next = PCAPZST_AT_END;
    GIVES(PCAPZST_E_INVALID, pcapzst_records_next(NULL, &packet, &next));
    CHECK(is_all(&packet, 0, sizeof packet) && next == PCAPZST_NOT_YET);
    next = PCAPZST_AT_END;
    GIVES(PCAPZST_E_INVALID, pcapzst_records_next(records, NULL, &next));
    CHECK(next == PCAPZST_NOT_YET);
    memset(&packet, 0xee, sizeof packet);
    GIVES(PCAPZST_E_INVALID, pcapzst_records_next(records, &packet, NULL));
    CHECK(is_all(&packet, 0, sizeof packet));
    /* A refused call takes no packet. */
    CHECK(gives_packets(records, &made, 0, made.count));
    pcapzst_records_close(records);
    pcapzst_records_close(NULL);
    pcapzst_close(reader);
    free(stored.data);
    free_sample(&made);
}

void test_records(void) {
    packets_come_as_they_were_added(0);
    packets_come_as_they_were_added(1);
    records_take_no_null();
}

static void a_growing_capture_is_followed_to_its_end(const sample *made) {
    path_name path = at("grows.pcap.zst");
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    pcapzst_records *early = NULL, *tail = NULL;
    pcapzst_state state = PCAPZST_DAMAGED;
    pcapzst_packet packet;
    pcapzst_next next = PCAPZST_AT_END;
    OK(pcapzst_writer_create(path.text, NULL, &writer));
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    OK(pcapzst_records_open(reader, 0, &early));
    memset(&packet, 0xee, sizeof packet);
    OK(pcapzst_records_next(early, &packet, &next));
    CHECK(next == PCAPZST_NOT_YET && is_all(&packet, 0, sizeof packet));
    header_of(writer, made);
    CHECK(gives_next(early, PCAPZST_NOT_YET));
    add_packets(writer, made, 0, 4);
    OK(pcapzst_writer_flush(writer));
    CHECK(gives_packets(early, made, 0, 4) && gives_next(early, PCAPZST_NOT_YET));
    OK(pcapzst_refresh(reader, &state));
    CHECK(state == PCAPZST_GROWING && pcapzst_frame_count(reader) == 1);
    OK(pcapzst_records_open(reader, pcapzst_frame_count(reader), &tail));
    CHECK(gives_next(tail, PCAPZST_NOT_YET));
    add_packets(writer, made, 4, 10);
    OK(pcapzst_writer_finish(writer));
    /* Finished, and packets are still to be given: they come first. */
    CHECK(gives_packets(tail, made, 4, 10) && gives_next(tail, PCAPZST_AT_END));
    CHECK(gives_packets(early, made, 4, 10) && gives_next(early, PCAPZST_AT_END));
    OK(pcapzst_refresh(reader, &state));
    CHECK(state == PCAPZST_COMPLETE && info_of(reader).state == PCAPZST_COMPLETE);
    CHECK(pcapzst_frame_count(reader) == 2);
    CHECK(reads_as(reader, made->source.data, (size_t)info_of(reader).source_size));
    pcapzst_writer_close(writer);
    pcapzst_records_close(early);
    pcapzst_records_close(tail);
    pcapzst_close(reader);
}

static void a_capture_that_was_removed_is_cut_short(const sample *made) {
    path_name path = at("removed.pcap.zst"), partial = partial_of(path);
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    pcapzst_records *records = NULL;
    pcapzst_state state = PCAPZST_GROWING;
    pcapzst_packet packet;
    pcapzst_next next = PCAPZST_AT_END;
    OK(pcapzst_writer_create(path.text, NULL, &writer));
    header_of(writer, made);
    add_packets(writer, made, 0, 4);
    OK(pcapzst_writer_flush(writer));
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    OK(pcapzst_records_open(reader, 0, &records));
    CHECK(gives_packets(records, made, 0, 2));
    OK(pcapzst_writer_abandon(writer));
    CHECK(!exists(partial) && !exists(path));
    CHECK(gives_packets(records, made, 2, 4));
    memset(&packet, 0xee, sizeof packet);
    GIVES(PCAPZST_E_TORN, pcapzst_records_next(records, &packet, &next));
    CHECK(next == PCAPZST_NOT_YET && is_all(&packet, 0, sizeof packet));
    GIVES(PCAPZST_E_TORN, pcapzst_records_next(records, &packet, &next));
    OK(pcapzst_refresh(reader, &state));
    CHECK(state == PCAPZST_CUT_SHORT && info_of(reader).state == PCAPZST_CUT_SHORT);
    /* What is there can still be read. */
    CHECK(reads_as(reader, made->source.data, (size_t)info_of(reader).source_size));
    pcapzst_records_close(records);
    pcapzst_close(reader);
}

static void a_torn_tail_under_the_final_name_drains(const sample *made) {
    path_name path = at("drains.pcap.zst"), short_path = at("drains-short.pcap.zst");
    bytes stored;
    pcapzst_reader *reader = NULL;
    pcapzst_state state = PCAPZST_GROWING;
    pcapzst_info info;
    write_capture(short_path, made);
    stored = read_file(short_path);
    write_file(path, stored.data, stored.size - 5);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    info = info_of(reader);
    CHECK(info.state == PCAPZST_DRAINING && info.torn_bytes > 0 && info.source_size < made->source.size);
    append_file(path, stored.data + stored.size - 5, 5);
    OK(pcapzst_refresh(reader, &state));
    CHECK(state == PCAPZST_COMPLETE && info_of(reader).torn_bytes == 0);
    CHECK(reads_as(reader, made->source.data, made->source.size));
    pcapzst_close(reader);
    free(stored.data);
}

static void another_capture_written_over_the_file_is_told(const sample *made) {
    path_name path = at("over.pcap.zst");
    sample other = make_sample(made->count, made->is_nanoseconds, 77);
    bytes stored = stored_capture("other.pcap.zst", &other);
    pcapzst_reader *reader = NULL;
    pcapzst_records *records = NULL;
    pcapzst_packet packet;
    pcapzst_next next = PCAPZST_AT_END;
    write_capture(path, made);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    OK(pcapzst_records_open(reader, pcapzst_frame_count(reader) - 1, &records));
    write_file(path, stored.data, stored.size);
    GIVES(PCAPZST_E_CHANGED, pcapzst_refresh(reader, NULL));
    CHECK(strstr(pcapzst_last_error(), "over.pcap.zst") != NULL);
    GIVES(PCAPZST_E_CHANGED, pcapzst_records_next(records, &packet, &next));
    CHECK(next == PCAPZST_NOT_YET && is_all(&packet, 0, sizeof packet));
    pcapzst_records_close(records);
    pcapzst_close(reader);
    free(stored.data);
    free_sample(&other);
}

static void a_frame_that_another_took_the_place_of_is_not_sent_on(const sample *made) {
    path_name path = at("moved.pcap.zst");
    bytes stored;
    pcapzst_reader *reader = NULL;
    pcapzst_frame_info frame;
    uint8_t dst[16384];
    write_capture(path, made);
    stored = read_file(path);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    frame = frame_of(reader, 2);
    CHECK(frame.physical_offset > CHECKED_START);
    /* The file becomes shorter, within the frame. */
    CHECK(truncate(path.text, (off_t)(frame.physical_offset + frame.physical_size / 2)) == 0);
    GIVES(PCAPZST_E_CHANGED, pcapzst_read_stored(reader, 2, dst, sizeof dst));
    GIVES(PCAPZST_E_CHANGED, pcapzst_decode_frame(reader, 2, dst, sizeof dst));
    OK(pcapzst_decode_frame(reader, 1, dst, sizeof dst));
    OK(pcapzst_read_stored(reader, 0, dst, sizeof dst));
    /* Zeros where its header was. */
    memset(stored.data + frame.physical_offset, 0, 16);
    write_file(path, stored.data, stored.size);
    GIVES(PCAPZST_E_CHANGED, pcapzst_read_stored(reader, 2, dst, sizeof dst));
    pcapzst_close(reader);
    free(stored.data);
}

/* What is left does not tell whether it is the same capture, before it is walked. */
static void a_file_cut_back_to_less_than_its_checked_start_is_read_behind_a_look(const sample *made) {
    path_name path = at("short.pcap.zst");
    pcapzst_reader *reader = NULL;
    pcapzst_state state = PCAPZST_COMPLETE;
    uint8_t dst[16384];
    write_capture(path, made);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    CHECK(frame_of(reader, 1).physical_offset < CHECKED_START - 1);
    CHECK(truncate(path.text, CHECKED_START - 1) == 0);
    GIVES(PCAPZST_E_CHANGED, pcapzst_decode_frame(reader, 0, dst, sizeof dst));
    OK(pcapzst_refresh(reader, &state));
    CHECK(state == PCAPZST_DRAINING && pcapzst_frame_count(reader) == 1);
    OK(pcapzst_decode_frame(reader, 0, dst, sizeof dst));
    CHECK(memcmp(dst, made->source.data + GLOBAL_HEADER, (size_t)frame_of(reader, 0).source_size) == 0);
    pcapzst_close(reader);
}

typedef struct {
    pcapzst_writer *writer;
    const sample *made;
} adding;

static void *adds_and_flushes(void *argument) {
    const adding *self = argument;
    add_packets(self->writer, self->made, 0, 4);
    OK(pcapzst_writer_flush(self->writer));
    return NULL;
}

static void waiting_ends_with_a_write(const sample *made) {
    path_name path = at("waits.pcap.zst");
    pcapzst_reader *reader = NULL;
    struct timespec start, now;
    pthread_t thread;
    adding other;
    int turns;
    other.made = made;
    OK(pcapzst_writer_create(path.text, NULL, &other.writer));
    header_of(other.writer, made);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    clock_gettime(CLOCK_MONOTONIC, &start);
    OK(pcapzst_wait(reader, 60000));
    OK(pcapzst_refresh(reader, NULL));
    CHECK(pcapzst_frame_count(reader) == 0);
    CHECK(pthread_create(&thread, NULL, adds_and_flushes, &other) == 0);
    for (turns = 0; turns < 100 && pcapzst_frame_count(reader) == 0; turns++) {
        OK(pcapzst_wait(reader, 60000));
        OK(pcapzst_refresh(reader, NULL));
    }
    CHECK(pcapzst_frame_count(reader) == 1);
    pthread_join(thread, NULL);
    /* The rename is a change as well. */
    OK(pcapzst_writer_finish(other.writer));
    for (turns = 0; turns < 100 && info_of(reader).state != PCAPZST_COMPLETE; turns++) {
        OK(pcapzst_wait(reader, 60000));
        OK(pcapzst_refresh(reader, NULL));
    }
    CHECK(info_of(reader).state == PCAPZST_COMPLETE);
    clock_gettime(CLOCK_MONOTONIC, &now);
    /* None of the waits ran out. */
    CHECK(now.tv_sec - start.tv_sec < 50);
    pcapzst_writer_close(other.writer);
    pcapzst_close(reader);
}

static void *follows_to_the_end(void *argument) {
    const adding *self = argument;
    path_name path = at("many.pcap.zst");
    pcapzst_reader *reader = NULL;
    pcapzst_records *records = NULL;
    pcapzst_packet packet;
    pcapzst_next next = PCAPZST_NOT_YET;
    size_t count = 0;
    int is_same = 1;
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    OK(pcapzst_records_open(reader, 0, &records));
    /* Ends with the first failure: that the count is short tells it. */
    while (pcapzst_records_next(records, &packet, &next) == PCAPZST_OK && next != PCAPZST_AT_END) {
        if (next == PCAPZST_NOT_YET) {
            if (pcapzst_wait(reader, 60000) != PCAPZST_OK) break;
            continue;
        }
        is_same = is_same && count < self->made->count && packet.ts_ns == self->made->packets[count].ts_ns &&
                  memcmp(packet.data, packet_data(self->made, count), packet.captured_length) == 0;
        count++;
    }
    CHECK(next == PCAPZST_AT_END && is_same && count == self->made->count);
    pcapzst_records_close(records);
    pcapzst_close(reader);
    return NULL;
}

static void four_followers_get_what_a_writer_adds_meanwhile(void) {
    sample made = make_sample(300, 1, 15);
    path_name path = at("many.pcap.zst");
    pthread_t threads[4];
    adding other;
    size_t i;
    OK(pcapzst_writer_create(path.text, NULL, &other.writer));
    other.made = &made;
    for (i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, follows_to_the_end, &other) == 0);
    header_of(other.writer, &made);
    for (i = 0; i < made.count; i += 3) {
        add_packets(other.writer, &made, i, i + 3);
        OK(pcapzst_writer_flush(other.writer));
    }
    OK(pcapzst_writer_finish(other.writer));
    pcapzst_writer_close(other.writer);
    for (i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    free_sample(&made);
}

void test_following(void) {
    sample made = make_sample(40, 0, 9);
    a_growing_capture_is_followed_to_its_end(&made);
    a_capture_that_was_removed_is_cut_short(&made);
    a_torn_tail_under_the_final_name_drains(&made);
    another_capture_written_over_the_file_is_told(&made);
    a_frame_that_another_took_the_place_of_is_not_sent_on(&made);
    a_file_cut_back_to_less_than_its_checked_start_is_read_behind_a_look(&made);
    waiting_ends_with_a_write(&made);
    four_followers_get_what_a_writer_adds_meanwhile();
    free_sample(&made);
}
