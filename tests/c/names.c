/* Writers and the files of others: whose a name is, resuming, finishing, and writers that were killed. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static pcapzst_writer *const some_writer = (pcapzst_writer *)&folder;

static pcapzst_status try_create(path_name path, uint32_t flags, pcapzst_writer **writer) {
    pcapzst_writer_options options = {0, 0, 0, 0};
    options.flags = flags;
    *writer = some_writer;
    return pcapzst_writer_create(path.text, &options, writer);
}

static void refused(path_name path, uint32_t flags, pcapzst_status wanted) {
    pcapzst_writer *writer;
    GIVES(wanted, try_create(path, flags, &writer));
    CHECK(!writer);
    CHECK(strstr(pcapzst_last_error(), path.text) != NULL);
    /* A library names no options of a command. */
    CHECK(strstr(pcapzst_last_error(), "--") == NULL);
}

static void holds(path_name path, const sample *made, size_t packets, pcapzst_state state) {
    pcapzst_reader *reader = NULL;
    size_t size = packets < made->count ? (size_t)made->packets[packets].source_offset : made->source.size;
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    CHECK(reads_as(reader, made->source.data, size));
    CHECK(info_of(reader).state == state);
    pcapzst_close(reader);
}

static void a_finished_file_is_replaced_only_when_asked(const sample *made) {
    path_name path = at("taken.pcap.zst");
    sample other = make_sample(8, 1, 55);
    bytes before, after;
    pcapzst_writer *writer;
    write_capture(path, made);
    before = read_file(path);
    refused(path, 0, PCAPZST_E_EXISTS);
    refused(path, PCAPZST_WRITER_RESUME, PCAPZST_E_EXISTS);
    CHECK(!exists(partial_of(path)));
    OK(try_create(path, PCAPZST_WRITER_REPLACE, &writer));
    after = read_file(path);
    CHECK(after.size == before.size && memcmp(after.data, before.data, before.size) == 0);
    OK(pcapzst_writer_write(writer, other.source.data, other.source.size));
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    holds(path, &other, other.count, PCAPZST_COMPLETE);
    free(before.data), free(after.data);
    free_sample(&other);
}

static void a_second_writer_is_busy_until_the_first_is_closed(const sample *made) {
    path_name path = at("busy.pcap.zst");
    pcapzst_writer *first, *second;
    OK(try_create(path, 0, &first));
    refused(path, 0, PCAPZST_E_BUSY);
    refused(path, PCAPZST_WRITER_RESUME, PCAPZST_E_BUSY);
    refused(path, PCAPZST_WRITER_REPLACE, PCAPZST_E_BUSY);
    header_of(first, made);
    add_packets(first, made, 0, 5);
    pcapzst_writer_close(first);
    holds(path, made, 5, PCAPZST_GROWING);
    refused(path, 0, PCAPZST_E_EXISTS);
    OK(try_create(path, PCAPZST_WRITER_RESUME, &second));
    OK(pcapzst_writer_abandon(second));
    CHECK(!exists(partial_of(path)));
    OK(try_create(path, 0, &second));
    OK(pcapzst_writer_abandon(second));
}

static void a_resumed_writer_goes_on_behind_the_last_whole_frame(const sample *made) {
    path_name path = at("resumed.pcap.zst"), partial = partial_of(path);
    pcapzst_writer *writer;
    bytes whole, resumed;
    OK(try_create(path, PCAPZST_WRITER_RESUME, &writer));
    header_of(writer, made);
    add_packets(writer, made, 0, 5);
    pcapzst_writer_close(writer);
    whole = read_file(partial);
    /* The beginning of a frame, as a writer leaves it that was killed at it. */
    append_file(partial, whole.data + header_frame_end(&whole), 20);
    OK(try_create(path, PCAPZST_WRITER_RESUME, &writer));
    resumed = read_file(partial);
    CHECK(resumed.size == whole.size && memcmp(resumed.data, whole.data, whole.size) == 0);
    CHECK(written_of(writer).source_size == made->packets[5].source_offset && written_of(writer).frames == 1);
    CHECK(written_of(writer).has_header == 1 && written_of(writer).physical_size == whole.size);
    GIVES(PCAPZST_E_EXISTS, pcapzst_writer_header(writer, LINK_TYPE + 1, SNAPLEN, made->is_nanoseconds));
    GIVES(PCAPZST_E_EXISTS, pcapzst_writer_header(writer, LINK_TYPE, SNAPLEN - 1, made->is_nanoseconds));
    GIVES(PCAPZST_E_EXISTS, pcapzst_writer_header(writer, LINK_TYPE, SNAPLEN, !made->is_nanoseconds));
    header_of(writer, made);
    add_packets(writer, made, 5, 9);
    pcapzst_writer_close(writer);
    /* Bytes go on at source_size, and no header is needed. */
    OK(try_create(path, PCAPZST_WRITER_RESUME, &writer));
    CHECK(written_of(writer).source_size == made->packets[9].source_offset);
    OK(pcapzst_writer_write(writer, made->source.data + made->packets[9].source_offset,
                            made->source.size - made->packets[9].source_offset));
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    holds(path, made, made->count, PCAPZST_COMPLETE);
    free(whole.data), free(resumed.data);
}

static void a_left_partial_file_is_replaced_when_asked(const sample *made) {
    path_name path = at("replaced.pcap.zst");
    sample other = make_sample(8, 1, 56);
    pcapzst_writer *writer;
    OK(try_create(path, 0, &writer));
    header_of(writer, made);
    add_packets(writer, made, 0, 5);
    pcapzst_writer_close(writer);
    OK(try_create(path, PCAPZST_WRITER_REPLACE, &writer));
    CHECK(written_of(writer).source_size == 0 && written_of(writer).has_header == 0);
    header_of(writer, &other);
    add_packets(writer, &other, 0, other.count);
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    holds(path, &other, other.count, PCAPZST_COMPLETE);
    free_sample(&other);
}

static void what_is_no_writers_is_not_resumed(const sample *made) {
    path_name path = at("foreign.pcap.zst"), partial = partial_of(path);
    bytes after;
    pcapzst_writer *writer;
    pcapzst_status status;
    write_file(partial, made->source.data, made->source.size);
    status = try_create(path, PCAPZST_WRITER_RESUME, &writer);
    CHECK(status == PCAPZST_E_FORMAT || status == PCAPZST_E_NOT_MARKED);
    CHECK(!writer);
    after = read_file(partial);
    CHECK(after.size == made->source.size && memcmp(after.data, made->source.data, after.size) == 0);
    free(after.data);
    unlink(partial.text);
}

void test_names_of_writers(void) {
    sample made = make_sample(20, 0, 12);
    a_finished_file_is_replaced_only_when_asked(&made);
    a_second_writer_is_busy_until_the_first_is_closed(&made);
    a_resumed_writer_goes_on_behind_the_last_whole_frame(&made);
    a_left_partial_file_is_replaced_when_asked(&made);
    what_is_no_writers_is_not_resumed(&made);
    free_sample(&made);
}

static void half_a_record_is_not_finished(const sample *made) {
    path_name path = at("half.pcap.zst");
    size_t half = (size_t)made->packets[4].source_offset + 9;
    pcapzst_writer *writer;
    OK(try_create(path, 0, &writer));
    OK(pcapzst_writer_write(writer, made->source.data, 11));
    GIVES(PCAPZST_E_TORN, pcapzst_writer_finish(writer));
    OK(pcapzst_writer_write(writer, made->source.data + 11, half - 11));
    GIVES(PCAPZST_E_TORN, pcapzst_writer_finish(writer));
    CHECK(!exists(path) && exists(partial_of(path)));
    OK(pcapzst_writer_write(writer, made->source.data + half, made->source.size - half));
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    holds(path, made, made->count, PCAPZST_COMPLETE);
}

static void a_capture_without_a_header_is_not_finished(void) {
    path_name path = at("headless.pcap.zst");
    pcapzst_writer *writer;
    OK(try_create(path, 0, &writer));
    GIVES(PCAPZST_E_TORN, pcapzst_writer_finish(writer));
    CHECK(!exists(path) && exists(partial_of(path)));
    OK(pcapzst_writer_abandon(writer));
    CHECK(!exists(partial_of(path)));
}

static void finishing_finds_its_file_or_changes_nothing(const sample *made) {
    path_name path = at("away.pcap.zst"), partial = partial_of(path), elsewhere = at("elsewhere");
    pcapzst_writer *writer;
    OK(try_create(path, 0, &writer));
    header_of(writer, made);
    add_packets(writer, made, 0, 3);
    CHECK(rename(partial.text, elsewhere.text) == 0);
    GIVES(PCAPZST_E_CHANGED, pcapzst_writer_finish(writer));
    CHECK(!exists(path) && exists(elsewhere));
    write_file(partial, "x", 1);
    GIVES(PCAPZST_E_CHANGED, pcapzst_writer_finish(writer));
    CHECK(!exists(path));
    CHECK(rename(elsewhere.text, partial.text) == 0);
    write_file(path, "x", 1);
    GIVES(PCAPZST_E_EXISTS, pcapzst_writer_finish(writer));
    CHECK(exists(partial));
    unlink(path.text);
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    holds(path, made, 3, PCAPZST_COMPLETE);
}

static void abandoning_removes_no_file_of_others(const sample *made) {
    path_name path = at("others.pcap.zst"), partial = partial_of(path), elsewhere = at("elsewhere");
    pcapzst_writer *first, *second;
    OK(try_create(path, 0, &first));
    header_of(first, made);
    CHECK(rename(partial.text, elsewhere.text) == 0);
    OK(try_create(path, 0, &second));
    header_of(second, made);
    /* What the call gives is not documented. */
    pcapzst_writer_abandon(first);
    CHECK(exists(partial));
    OK(pcapzst_writer_finish(second));
    pcapzst_writer_close(second);
    unlink(elsewhere.text);
    unlink(partial.text);
}

void test_finishing(void) {
    sample made = make_sample(20, 0, 13);
    half_a_record_is_not_finished(&made);
    a_capture_without_a_header_is_not_finished();
    finishing_finds_its_file_or_changes_nothing(&made);
    abandoning_removes_no_file_of_others(&made);
    free_sample(&made);
}

/* A child writes some packets, says so, and is killed. */
static void kill_a_writer(path_name path, const sample *made, size_t packets) {
    int ends[2], status = 0;
    char ready = 0;
    pid_t child;
    CHECK(pipe(ends) == 0);
    child = fork();
    if (child == 0) {
        pcapzst_writer *writer;
        close(ends[0]);
        if (try_create(path, 0, &writer) != PCAPZST_OK) _exit(1);
        if (packets > 0) {
            header_of(writer, made);
            add_packets(writer, made, 0, packets);
            if (pcapzst_writer_flush(writer) != PCAPZST_OK) _exit(1);
        }
        if (write(ends[1], "!", 1) != 1) _exit(1);
        for (;;) pause();
    }
    CHECK(child > 0);
    close(ends[1]);
    CHECK(read(ends[0], &ready, 1) == 1);
    close(ends[0]);
    refused(path, 0, PCAPZST_E_BUSY);
    refused(path, PCAPZST_WRITER_RESUME, PCAPZST_E_BUSY);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

void test_killed_writers(void) {
    sample made = make_sample(20, 0, 14);
    path_name path = at("killed.pcap.zst");
    pcapzst_writer *writer;
    kill_a_writer(path, &made, 7);
    holds(path, &made, 7, PCAPZST_GROWING);
    refused(path, 0, PCAPZST_E_EXISTS);
    OK(try_create(path, PCAPZST_WRITER_RESUME, &writer));
    header_of(writer, &made);
    add_packets(writer, &made, 7, made.count);
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    holds(path, &made, made.count, PCAPZST_COMPLETE);
    unlink(path.text);

    /* Killed before its header was written: nothing to go on behind. */
    kill_a_writer(path, &made, 0);
    refused(path, 0, PCAPZST_E_EXISTS);
    OK(try_create(path, PCAPZST_WRITER_RESUME, &writer));
    CHECK(written_of(writer).source_size == 0 && written_of(writer).has_header == 0);
    header_of(writer, &made);
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    holds(path, &made, 0, PCAPZST_COMPLETE);
    free_sample(&made);
}
