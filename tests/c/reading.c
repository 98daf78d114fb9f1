/* What a reader tells, reads and decodes. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const pcapzst_frame_info no_frame = {0, 0, 0, 0};

static void the_info_is_that_of_the_capture(const pcapzst_reader *reader, const sample *made, const bytes *stored) {
    pcapzst_info info = info_of(reader);
    CHECK(info.state == PCAPZST_COMPLETE && info.fault == PCAPZST_OK);
    CHECK(info.source_size == made->source.size && info.physical_size == stored->size);
    CHECK(info.frames == pcapzst_frame_count(reader) && info.frames > 3 && info.torn_bytes == 0);
    CHECK(info.prologue_size == header_frame_end(stored));
    CHECK(info.file_id_ts_ns == made->packets[0].ts_ns && info.file_id_crc32 != 0);
    CHECK(info.magic == (made->is_nanoseconds ? PCAPZST_LE_NS : PCAPZST_LE_US));
    CHECK(info.ts_unit_ns == (made->is_nanoseconds ? 1u : 1000u));
    CHECK(info.link_type == LINK_TYPE && info.snaplen == SNAPLEN);
    CHECK(info.version_major == 2 && info.version_minor == 4);
}

/* The example of docs/FORMAT.md. */
static void the_file_id_is_that_of_the_format_document(void) {
    static const uint8_t two[66] = {
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 4,
        0, 0, 0, 4, 0, 0, 0, 'A', 'B', 'C', 'D', 2, 0, 0, 0, 6, 0, 0, 0, 6, 0, 0, 0, 6, 0, 0, 0, 'E', 'F', 'G', 'H',
        'I', 'J'};
    path_name path = at("two.pcap.zst");
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    pcapzst_info info;
    OK(pcapzst_writer_create(path.text, NULL, &writer));
    OK(pcapzst_writer_write(writer, two, sizeof two));
    OK(pcapzst_writer_finish(writer));
    CHECK(written_of(writer).physical_size == 92);
    pcapzst_writer_close(writer);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    info = info_of(reader);
    CHECK(info.file_id_ts_ns == 1000005000 && info.file_id_crc32 == 0xD5BFBB46u && info.physical_size == 92);
    pcapzst_close(reader);
}

static void a_big_endian_header_is_told(void) {
    static const uint8_t micro[24] = {0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 113};
    static const uint8_t nano[24] = {0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 113};
    int is_nano;
    for (is_nano = 0; is_nano < 2; is_nano++) {
        path_name path = at("big-endian.pcap.zst");
        pcapzst_writer *writer = NULL;
        pcapzst_reader *reader = NULL;
        pcapzst_info info;
        OK(pcapzst_writer_create(path.text, NULL, &writer));
        OK(pcapzst_writer_write(writer, is_nano ? nano : micro, 24));
        OK(pcapzst_writer_finish(writer));
        pcapzst_writer_close(writer);
        OK(pcapzst_open(path.text, NULL, &reader, NULL));
        info = info_of(reader);
        CHECK(info.magic == (is_nano ? PCAPZST_BE_NS : PCAPZST_BE_US) && info.ts_unit_ns == (is_nano ? 1u : 1000u));
        CHECK(info.snaplen == 256 && info.link_type == 113 && info.version_major == 2 && info.version_minor == 4);
        CHECK(info.state == PCAPZST_COMPLETE && info.frames == 0 && info.source_size == 24);
        pcapzst_close(reader);
        unlink(path.text);
    }
}

static void info_takes_no_null(const pcapzst_reader *reader) {
    pcapzst_info info;
    memset(&info, 0xee, sizeof info);
    GIVES(PCAPZST_E_INVALID, pcapzst_get_info(reader, NULL));
    GIVES(PCAPZST_E_INVALID, pcapzst_get_info(NULL, &info));
    CHECK(is_all(&info, 0, sizeof info));
    CHECK(pcapzst_frame_count(NULL) == 0);
}

static void frames_lie_one_behind_the_other(const pcapzst_reader *reader, const sample *made, const bytes *stored) {
    uint64_t count = pcapzst_frame_count(reader), index, source = GLOBAL_HEADER;
    uint64_t physical = info_of(reader).prologue_size;
    pcapzst_frame_info *all = room((size_t)count * sizeof *all);
    OK(pcapzst_frame_info_range(reader, 0, count, all));
    for (index = 0; index < count; index++) {
        pcapzst_frame_info one = frame_of(reader, index), same = no_frame;
        CHECK(memcmp(&one, &all[index], sizeof one) == 0);
        OK(pcapzst_frame_info_range(reader, index, 1, &same));
        CHECK(memcmp(&one, &same, sizeof one) == 0);
        CHECK(one.source_offset == source && one.physical_offset == physical);
        source += one.source_size;
        physical += one.physical_size;
    }
    CHECK(source == made->source.size && physical == stored->size);
    free(all);
}

static void ranges_past_the_last_frame_write_nothing(const pcapzst_reader *reader) {
    uint64_t count = pcapzst_frame_count(reader);
    pcapzst_frame_info infos[4];
    memset(infos, 0xee, sizeof infos);
    GIVES(PCAPZST_E_RANGE, pcapzst_frame_info_range(reader, count - 2, 3, infos));
    GIVES(PCAPZST_E_RANGE, pcapzst_frame_info_range(reader, count, 1, infos));
    GIVES(PCAPZST_E_RANGE, pcapzst_frame_info_range(reader, UINT64_MAX, 2, infos));
    GIVES(PCAPZST_E_RANGE, pcapzst_frame_info_range(reader, 1, UINT64_MAX, infos));
    GIVES(PCAPZST_E_RANGE, pcapzst_frame_info_range(reader, 0, UINT64_MAX, infos));
    GIVES(PCAPZST_E_INVALID, pcapzst_frame_info_range(NULL, 0, 2, infos));
    GIVES(PCAPZST_E_INVALID, pcapzst_frame_info_range(reader, 0, 2, NULL));
    OK(pcapzst_frame_info_range(reader, count, 0, infos));
    OK(pcapzst_frame_info_range(reader, 0, 0, NULL));
    CHECK(is_all(infos, 0xee, sizeof infos));
    GIVES(PCAPZST_E_INVALID, pcapzst_frame_info_at(reader, 0, NULL));
    GIVES(PCAPZST_E_INVALID, pcapzst_frame_info_at(NULL, 0, infos));
    memset(infos, 0xee, sizeof infos);
    GIVES(PCAPZST_E_RANGE, pcapzst_frame_info_at(reader, count, infos));
    GIVES(PCAPZST_E_RANGE, pcapzst_frame_info_at(reader, UINT64_MAX, infos));
    CHECK(is_all(infos, 0xee, sizeof infos));
}

static void every_byte_is_found_in_its_frame(const pcapzst_reader *reader, const sample *made) {
    uint64_t count = pcapzst_frame_count(reader), index, found;
    for (index = 0; index < count; index++) {
        pcapzst_frame_info frame = frame_of(reader, index);
        found = 99;
        OK(pcapzst_find_frame(reader, frame.source_offset, &found));
        CHECK(found == index);
        found = 99;
        OK(pcapzst_find_frame(reader, frame.source_offset + frame.source_size - 1, &found));
        CHECK(found == index);
    }
    found = 99;
    GIVES(PCAPZST_E_RANGE, pcapzst_find_frame(reader, 0, &found));
    CHECK(found == 0);
    found = 99;
    GIVES(PCAPZST_E_RANGE, pcapzst_find_frame(reader, GLOBAL_HEADER - 1, &found));
    CHECK(found == 0);
    found = 99;
    GIVES(PCAPZST_E_RANGE, pcapzst_find_frame(reader, made->source.size, &found));
    CHECK(found == 0);
    GIVES(PCAPZST_E_RANGE, pcapzst_find_frame(reader, UINT64_MAX, &found));
    GIVES(PCAPZST_E_INVALID, pcapzst_find_frame(reader, 30, NULL));
    found = 99;
    GIVES(PCAPZST_E_INVALID, pcapzst_find_frame(NULL, 30, &found));
    CHECK(found == 0);
}

static void reads_at(const pcapzst_reader *reader, const sample *made, uint64_t offset, uint64_t size) {
    uint64_t there = offset < made->source.size ? made->source.size - offset : 0;
    uint64_t wanted = size < there ? size : there, got = 99;
    uint8_t *dst = room((size_t)size);
    memset(dst, 0xee, (size_t)size);
    OK(pcapzst_read(reader, offset, dst, size, &got));
    CHECK(got == wanted);
    CHECK(wanted == 0 || memcmp(dst, made->source.data + offset, (size_t)wanted) == 0);
    CHECK(is_all(dst + wanted, 0xee, (size_t)(size - wanted)));
    free(dst);
}

static void every_kind_of_range_is_read(const pcapzst_reader *reader, const sample *made) {
    uint64_t all = made->source.size, got = 99, index;
    uint8_t byte;
    for (index = 0; index < pcapzst_frame_count(reader); index++) {
        pcapzst_frame_info frame = frame_of(reader, index);
        reads_at(reader, made, frame.source_offset, frame.source_size);
        reads_at(reader, made, frame.source_offset - 1, 2);
        reads_at(reader, made, frame.source_offset + 3, frame.source_size + 5);
        reads_at(reader, made, frame.source_offset + frame.source_size - 1, 1);
    }
    reads_at(reader, made, 0, 0);
    reads_at(reader, made, 0, 1);
    reads_at(reader, made, 0, GLOBAL_HEADER);
    reads_at(reader, made, 5, GLOBAL_HEADER);
    reads_at(reader, made, 0, all);
    reads_at(reader, made, 0, all + 100);
    reads_at(reader, made, all - 1, 100);
    reads_at(reader, made, all, 100);
    reads_at(reader, made, all + 1, 100);
    reads_at(reader, made, UINT64_MAX, 100);
    reads_at(reader, made, UINT64_MAX - 50, 100);
    OK(pcapzst_read(reader, 0, NULL, 0, &got));
    CHECK(got == 0);
    GIVES(PCAPZST_E_INVALID, pcapzst_read(reader, 0, &byte, 1, NULL));
    got = 99;
    GIVES(PCAPZST_E_INVALID, pcapzst_read(reader, 0, NULL, 1, &got));
    CHECK(got == 0);
    got = 99;
    GIVES(PCAPZST_E_INVALID, pcapzst_read(NULL, 0, &byte, 1, &got));
    CHECK(got == 0);
}

static void a_frame_is_decoded_into_a_buffer_that_is_large_enough(const pcapzst_reader *reader, const sample *made) {
    uint64_t count = pcapzst_frame_count(reader), index;
    uint8_t *dst = room(made->source.size);
    for (index = 0; index < count; index++) {
        pcapzst_frame_info frame = frame_of(reader, index);
        size_t size = (size_t)frame.source_size;
        memset(dst, 0xee, size + 1);
        GIVES(PCAPZST_E_RANGE, pcapzst_decode_frame(reader, index, dst, size - 1));
        GIVES(PCAPZST_E_RANGE, pcapzst_decode_frame(reader, index, dst, 0));
        CHECK(is_all(dst, 0xee, size + 1));
        OK(pcapzst_decode_frame(reader, index, dst, size));
        CHECK(memcmp(dst, made->source.data + frame.source_offset, size) == 0 && dst[size] == 0xee);
        OK(pcapzst_decode_frame(reader, index, dst, size + 1));
        CHECK(dst[size] == 0xee);
    }
    GIVES(PCAPZST_E_RANGE, pcapzst_decode_frame(reader, count, dst, made->source.size));
    GIVES(PCAPZST_E_RANGE, pcapzst_decode_frame(reader, UINT64_MAX, dst, made->source.size));
    GIVES(PCAPZST_E_INVALID, pcapzst_decode_frame(reader, 0, NULL, made->source.size));
    GIVES(PCAPZST_E_INVALID, pcapzst_decode_frame(NULL, 0, dst, made->source.size));
    GIVES(PCAPZST_E_RANGE, pcapzst_decode_frame(reader, 0, NULL, 0));
    free(dst);
}

static void stored_frames_behind_the_prologue_make_a_capture(const pcapzst_reader *reader, const sample *made) {
    pcapzst_info info = info_of(reader);
    size_t size = (size_t)info.physical_size, done = (size_t)info.prologue_size;
    uint8_t *copy = room(size);
    pcapzst_reader *again = NULL;
    uint64_t index;
    memset(copy, 0xee, size);
    GIVES(PCAPZST_E_RANGE, pcapzst_read_prologue(reader, copy, done - 1));
    GIVES(PCAPZST_E_INVALID, pcapzst_read_prologue(reader, NULL, done));
    GIVES(PCAPZST_E_INVALID, pcapzst_read_prologue(NULL, copy, done));
    GIVES(PCAPZST_E_RANGE, pcapzst_read_stored(reader, 0, copy, frame_of(reader, 0).physical_size - 1));
    GIVES(PCAPZST_E_RANGE, pcapzst_read_stored(reader, info.frames, copy, size));
    GIVES(PCAPZST_E_INVALID, pcapzst_read_stored(reader, 0, NULL, size));
    GIVES(PCAPZST_E_INVALID, pcapzst_read_stored(NULL, 0, copy, size));
    CHECK(is_all(copy, 0xee, size));
    OK(pcapzst_read_prologue(reader, copy, size));
    CHECK(copy[done] == 0xee);
    for (index = 0; index < info.frames; index++) {
        pcapzst_frame_info frame = frame_of(reader, index);
        OK(pcapzst_read_stored(reader, index, copy + done, frame.physical_size));
        done += (size_t)frame.physical_size;
    }
    CHECK(done == size);
    OK(pcapzst_open_memory(copy, done, NULL, &again, NULL));
    CHECK(reads_as(again, made->source.data, made->source.size));
    CHECK(info_of(again).state == PCAPZST_COMPLETE);
    pcapzst_close(again);
    free(copy);
}

static void a_frame_over_the_readers_limit_is_refused(const bytes *stored) {
    pcapzst_reader_options options = {1 << 20, 1000};
    pcapzst_reader *reader = NULL;
    uint8_t *dst = room(1 << 16);
    uint64_t got = 99;
    OK(pcapzst_open_memory(stored->data, stored->size, &options, &reader, NULL));
    GIVES(PCAPZST_E_LIMIT, pcapzst_decode_frame(reader, 0, dst, 1 << 16));
    GIVES(PCAPZST_E_LIMIT, pcapzst_read(reader, GLOBAL_HEADER, dst, 10, &got));
    CHECK(got == 0);
    OK(pcapzst_read(reader, 0, dst, 100, &got));
    CHECK(got == GLOBAL_HEADER);
    pcapzst_close(reader);
    free(dst);
}

static void memory_never_changes(const pcapzst_reader *reader) {
    pcapzst_state state = PCAPZST_GROWING;
    GIVES(PCAPZST_E_INVALID, pcapzst_wait(reader, 0));
    GIVES(PCAPZST_E_INVALID, pcapzst_wait(NULL, 0));
    OK(pcapzst_refresh(reader, &state));
    CHECK(state == PCAPZST_COMPLETE);
    OK(pcapzst_refresh(reader, NULL));
    GIVES(PCAPZST_E_INVALID, pcapzst_refresh(NULL, NULL));
    state = PCAPZST_COMPLETE;
    GIVES(PCAPZST_E_INVALID, pcapzst_refresh(NULL, &state));
    CHECK(state == PCAPZST_GROWING);
}

static void everything_is_read(const pcapzst_reader *reader, const sample *made, const bytes *stored) {
    the_info_is_that_of_the_capture(reader, made, stored);
    frames_lie_one_behind_the_other(reader, made, stored);
    every_byte_is_found_in_its_frame(reader, made);
    every_kind_of_range_is_read(reader, made);
    a_frame_is_decoded_into_a_buffer_that_is_large_enough(reader, made);
    stored_frames_behind_the_prologue_make_a_capture(reader, made);
}

void test_reading(void) {
    int is_nanoseconds;
    the_file_id_is_that_of_the_format_document();
    a_big_endian_header_is_told();
    for (is_nanoseconds = 0; is_nanoseconds < 2; is_nanoseconds++) {
        sample made = make_sample(60, is_nanoseconds, 3);
        path_name path = at("reading.pcap.zst");
        pcapzst_reader *reader = NULL, *in_memory = NULL;
        /* Room for one frame only: reading must not depend on what is kept. */
        pcapzst_reader_options small = {20000, 8000};
        bytes stored;
        write_capture(path, &made);
        stored = read_file(path);
        OK(pcapzst_open(path.text, &small, &reader, NULL));
        OK(pcapzst_open_memory(stored.data, stored.size, NULL, &in_memory, NULL));
        everything_is_read(reader, &made, &stored);
        everything_is_read(in_memory, &made, &stored);
        info_takes_no_null(reader);
        ranges_past_the_last_frame_write_nothing(reader);
        a_frame_over_the_readers_limit_is_refused(&stored);
        memory_never_changes(in_memory);
        pcapzst_close(reader);
        pcapzst_close(in_memory);
        free(stored.data);
        free_sample(&made);
    }
}
