/* Writers: what they take, and what they refuse. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pcapzst_writer *const some_writer = (pcapzst_writer *)&folder;

static pcapzst_writer *create(path_name path, uint32_t flags) {
    pcapzst_writer_options options = {0, 0, 0, 0};
    pcapzst_writer *writer = NULL;
    options.flags = flags;
    OK(pcapzst_writer_create(path.text, &options, &writer));
    return writer;
}

static void what_was_written_is_told(const sample *made) {
    path_name path = at("told.pcap.zst"), partial = partial_of(path);
    pcapzst_writer *writer = create(path, 0);
    pcapzst_written written = written_of(writer);
    bytes file;
    CHECK(written.source_size == 0 && written.frames == 0 && written.pending_size == 0 && written.has_header == 0);
    CHECK(written.physical_size == 14);
    OK(pcapzst_writer_flush(writer));
    header_of(writer, made);
    written = written_of(writer);
    CHECK(written.source_size == 24 && written.has_header == 1 && written.pending_size == 0 && written.frames == 0);
    add_packets(writer, made, 0, 2);
    written = written_of(writer);
    CHECK(written.source_size == 24 && written.pending_size == made->packets[2].source_offset - 24);
    OK(pcapzst_writer_flush(writer));
    OK(pcapzst_writer_flush(writer));
    written = written_of(writer);
    CHECK(written.source_size == made->packets[2].source_offset && written.pending_size == 0 && written.frames == 1);
    file = read_file(partial);
    CHECK(file.size == written.physical_size);
    free(file.data);
    add_packets(writer, made, 2, 3);
    OK(pcapzst_writer_finish(writer));
    CHECK(exists(path) && !exists(partial));
    written = written_of(writer);
    CHECK(written.source_size == made->packets[3].source_offset && written.frames == 2 && written.has_header == 1);
    CHECK(written.pending_size == 0);
    file = read_file(path);
    CHECK(file.size == written.physical_size);
    free(file.data);
    pcapzst_writer_close(writer);
    CHECK(exists(path));
}

static void a_finished_writer_is_only_good_to_be_closed(const sample *made) {
    path_name path = at("done.pcap.zst");
    pcapzst_writer *writer = create(path, 0);
    header_of(writer, made);
    OK(pcapzst_writer_finish(writer));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_finish(writer));
    CHECK(strstr(pcapzst_last_error(), "done.pcap.zst") != NULL);
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_flush(writer));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_header(writer, LINK_TYPE, SNAPLEN, 0));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_write(writer, "abc", 3));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_add(writer, 1, "abc", 3, 3));
    OK(pcapzst_writer_abandon(writer));
    CHECK(exists(path));
}

static void waiting_records_are_flushed(const sample *made) {
    path_name path = at("flushed.pcap.zst");
    pcapzst_writer_options options = {0, 0, 64 << 20, 1};
    pcapzst_writer *writer = NULL;
    pcapzst_written written;
    unsigned long adds = 0;
    OK(pcapzst_writer_create(path.text, &options, &writer));
    header_of(writer, made);
    /* A millisecond is over before empty packets fill 64 MiB, on any machine. */
    /* Not counted as checks: how many there are hangs on the clock. */
    while (pcapzst_writer_get_written(writer, &written) == PCAPZST_OK && written.frames == 0 && adds < 4000000) {
        if (pcapzst_writer_add(writer, made->packets[0].ts_ns, "", 0, 0) != PCAPZST_OK) break;
        adds++;
    }
    CHECK(written_of(writer).frames > 0 && written_of(writer).source_size < 64 << 20);
    OK(pcapzst_writer_abandon(writer));
}

static void small_targets_make_a_frame_of_each_packet(const sample *made) {
    path_name path = at("small.pcap.zst");
    pcapzst_writer_options options = {19, 0, 1, 0};
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    OK(pcapzst_writer_create(path.text, &options, &writer));
    OK(pcapzst_writer_write(writer, made->source.data, made->source.size));
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    CHECK(pcapzst_frame_count(reader) == made->count && reads_as(reader, made->source.data, made->source.size));
    pcapzst_close(reader);
}

void test_writing(void) {
    sample made = make_sample(20, 0, 10);
    what_was_written_is_told(&made);
    a_finished_writer_is_only_good_to_be_closed(&made);
    waiting_records_are_flushed(&made);
    small_targets_make_a_frame_of_each_packet(&made);
    free_sample(&made);
}

static void creating_takes_no_null(void) {
    path_name path = at("null-writer.pcap.zst");
    pcapzst_writer *writer = some_writer;
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_create(NULL, NULL, &writer));
    CHECK(!writer);
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_create(path.text, NULL, NULL));
    CHECK(!exists(path) && !exists(partial_of(path)));
    CHECK(pcapzst_writer_create("", NULL, &writer) != PCAPZST_OK && !writer);
    writer = some_writer;
    GIVES(PCAPZST_E_IO, pcapzst_writer_create(at("no/such/folder.pcap.zst").text, NULL, &writer));
    CHECK(!writer);
}

static void writers_take_no_null(void) {
    path_name path = at("null-writer.pcap.zst");
    pcapzst_writer *writer = create(path, 0);
    pcapzst_written written;
    memset(&written, 0xee, sizeof written);
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_header(NULL, 1, 1, 0));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_add(NULL, 0, "", 0, 0));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_write(NULL, "", 0));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_flush(NULL));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_finish(NULL));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_get_written(writer, NULL));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_get_written(NULL, &written));
    CHECK(is_all(&written, 0, sizeof written));
    pcapzst_writer_close(NULL);
    OK(pcapzst_writer_abandon(NULL));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_write(writer, NULL, 1));
    OK(pcapzst_writer_write(writer, NULL, 0));
    OK(pcapzst_writer_header(writer, 1, 100, 0));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_add(writer, 0, NULL, 1, 1));
    OK(pcapzst_writer_add(writer, 0, NULL, 0, 1));
    OK(pcapzst_writer_abandon(writer));
}

static void bad_options_are_refused(void) {
    path_name path = at("options.pcap.zst");
    pcapzst_writer_options bad_flags = {0, 3, 0, 0}, other_flags = {0, 4, 0, 0};
    pcapzst_writer_options high = {1000, 0, 0, 0}, low = {INT32_MIN, 0, 0, 0}, large = {0, 0, 0, 0};
    pcapzst_writer *writer = some_writer;
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_create(path.text, &bad_flags, &writer));
    CHECK(!writer);
    writer = some_writer;
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_create(path.text, &other_flags, &writer));
    CHECK(!writer);
    large.frame_target = UINT64_MAX, writer = some_writer;
    GIVES(PCAPZST_E_RANGE, pcapzst_writer_create(path.text, &large, &writer));
    CHECK(!writer && !exists(partial_of(path)));
    /* zstd rejects no level: one out of its range is the nearest within. */
    OK(pcapzst_writer_create(path.text, &high, &writer));
    OK(pcapzst_writer_abandon(writer));
    OK(pcapzst_writer_create(path.text, &low, &writer));
    OK(pcapzst_writer_abandon(writer));
    CHECK(!exists(partial_of(path)));
}

static void a_packet_that_no_record_can_hold_is_refused(void) {
    path_name path = at("packets.pcap.zst");
    const uint64_t last_ns = UINT32_MAX * (uint64_t)1000000000 + 999999999;
    uint8_t *data = room(300000);
    pcapzst_writer *writer = create(path, 0);
    memset(data, 1, 300000);
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_add(writer, 1, data, 3, 3));
    OK(pcapzst_writer_header(writer, LINK_TYPE, 100, 1));
    GIVES(PCAPZST_E_LIMIT, pcapzst_writer_add(writer, 1, data, 101, 200));
    CHECK(strstr(pcapzst_last_error(), "wanted") && strstr(pcapzst_last_error(), "got 101"));
    GIVES(PCAPZST_E_LIMIT, pcapzst_writer_add(writer, 1, data, 300000, 300000));
    GIVES(PCAPZST_E_RANGE, pcapzst_writer_add(writer, last_ns + 1, data, 3, 3));
    GIVES(PCAPZST_E_RANGE, pcapzst_writer_add(writer, UINT64_MAX, data, 3, 3));
    CHECK(written_of(writer).pending_size == 0 && written_of(writer).source_size == 24);
    OK(pcapzst_writer_add(writer, last_ns, data, 100, 200));
    CHECK(written_of(writer).pending_size == 116);
    OK(pcapzst_writer_abandon(writer));
    /* A snaplen of 0 says nothing; the format's own limit stays. */
    writer = create(path, 0);
    OK(pcapzst_writer_header(writer, LINK_TYPE, 0, 1));
    OK(pcapzst_writer_add(writer, 0, data, 262144, 262144));
    GIVES(PCAPZST_E_LIMIT, pcapzst_writer_add(writer, 0, data, 262145, 262145));
    OK(pcapzst_writer_abandon(writer));
    free(data);
}

static void a_second_header_must_be_the_same(const sample *made) {
    path_name path = at("headers.pcap.zst");
    pcapzst_writer *writer = create(path, 0);
    header_of(writer, made);
    GIVES(PCAPZST_E_EXISTS, pcapzst_writer_header(writer, LINK_TYPE + 1, SNAPLEN, made->is_nanoseconds));
    GIVES(PCAPZST_E_EXISTS, pcapzst_writer_header(writer, LINK_TYPE, SNAPLEN, !made->is_nanoseconds));
    CHECK(written_of(writer).source_size == 24);
    add_packets(writer, made, 0, 1);
    OK(pcapzst_writer_abandon(writer));
}

static void bytes_that_are_no_pcap_end_the_writing(const sample *made) {
    path_name path = at("no-pcap.pcap.zst");
    pcapzst_writer *writer = create(path, 0);
    pcapzst_reader *reader = NULL;
    uint8_t junk[64];
    size_t whole = made->packets[3].source_offset;
    memset(junk, 0xff, sizeof junk);
    GIVES(PCAPZST_E_FORMAT, pcapzst_writer_write(writer, junk, sizeof junk));
    GIVES(PCAPZST_E_FORMAT, pcapzst_writer_write(writer, made->source.data, whole));
    OK(pcapzst_writer_abandon(writer));
    writer = create(path, 0);
    OK(pcapzst_writer_write(writer, made->source.data, whole));
    GIVES(PCAPZST_E_FORMAT, pcapzst_writer_write(writer, junk, sizeof junk));
    GIVES(PCAPZST_E_FORMAT, pcapzst_writer_write(writer, made->source.data + whole, 100));
    pcapzst_writer_close(writer);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    CHECK(reads_as(reader, made->source.data, whole));
    pcapzst_close(reader);
    unlink(partial_of(path).text);
}

/* Its header and bytes would be taken for the missing end of the packet before it. */
static void a_packet_behind_half_a_record_is_refused(const sample *made) {
    path_name path = at("mixed.pcap.zst");
    size_t last = 4, missing = 50, end = (size_t)made->packets[last + 1].source_offset;
    pcapzst_writer *writer = create(path, 0);
    pcapzst_reader *reader = NULL;
    CHECK(made->packets[last].captured_length > missing);
    OK(pcapzst_writer_write(writer, made->source.data, end - missing));
    GIVES(PCAPZST_E_INVALID, pcapzst_writer_add(writer, made->packets[last].ts_ns, made->source.data, 34, 34));
    OK(pcapzst_writer_write(writer, made->source.data + end - missing, missing));
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    CHECK(reads_as(reader, made->source.data, end));
    pcapzst_close(reader);
}

void test_writer_refusals(void) {
    sample made = make_sample(20, 0, 11);
    creating_takes_no_null();
    writers_take_no_null();
    bad_options_are_refused();
    a_packet_that_no_record_can_hold_is_refused();
    a_second_header_must_be_the_same(&made);
    bytes_that_are_no_pcap_end_the_writing(&made);
    a_packet_behind_half_a_record_is_refused(&made);
    free_sample(&made);
}
