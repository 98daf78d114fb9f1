/* What runs short: room for frames, room on the disk, and names that are not what they were. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

enum { ITERATORS = 12 };

/* Each has taken a packet of a frame of its own before the first goes on: no frame that is held keeps another one waiting. */
static void idle_iterators_keep_no_room_from_others(void) {
    path_name path = at("idle-iterators.pcap.zst");
    sample made = make_sample(4000, 0, 31);
    pcapzst_writer_options how = {0};
    pcapzst_reader_options options = {0};
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    pcapzst_records *records[ITERATORS];
    size_t which;
    how.frame_target = 200000;
    OK(pcapzst_writer_create(path.text, &how, &writer));
    OK(pcapzst_writer_write(writer, made.source.data, made.source.size));
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    options.cache_size = 1024 * 1024;
    OK(pcapzst_open(path.text, &options, &reader, NULL));
    CHECK(pcapzst_frame_count(reader) >= 4);
    for (which = 0; which < ITERATORS; which++) {
        OK(pcapzst_records_open(reader, 0, &records[which]));
        CHECK(gives_packets(records[which], &made, 0, which * 200 + 1));
    }
    for (which = 0; which < ITERATORS; which++) {
        CHECK(gives_packets(records[which], &made, which * 200 + 1, made.count));
        CHECK(gives_next(records[which], PCAPZST_AT_END));
    }
    CHECK(reads_as(reader, made.source.data, made.source.size));
    for (which = 0; which < ITERATORS; which++)
        pcapzst_records_close(records[which]);
    pcapzst_close(reader);
    free_sample(&made);
}

static void set_limit(rlim_t bytes) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static pcapzst_status add_one(pcapzst_writer *writer, const sample *made, size_t index) {
    const made_packet *packet = &made->packets[index];
    return pcapzst_writer_add(writer, packet->ts_ns, packet_data(made, index), packet->captured_length,
                              packet->original_length);
}

/* A limit on the size of files stands for a full disk. */
static void what_could_not_be_written_is_written_when_there_is_room(void) {
    path_name path = at("full-disk.pcap.zst");
    sample made = make_sample(60, 0, 32);
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    pcapzst_records *records = NULL;
    struct sigaction ignored = {0}, before;
    ignored.sa_handler = SIG_IGN;
    CHECK(sigaction(SIGXFSZ, &ignored, &before) == 0);
    OK(pcapzst_writer_create(path.text, NULL, &writer));
    set_limit(20);
    GIVES(PCAPZST_E_IO, pcapzst_writer_header(writer, LINK_TYPE, SNAPLEN, 0));
    set_limit(RLIM_INFINITY);
    header_of(writer, &made);
    add_packets(writer, &made, 0, 30);
    set_limit(100);
    GIVES(PCAPZST_E_IO, pcapzst_writer_flush(writer));
    GIVES(PCAPZST_E_IO, pcapzst_writer_finish(writer));
    add_packets(writer, &made, 30, 60);
    set_limit(RLIM_INFINITY);
    OK(pcapzst_writer_flush(writer));
    CHECK(written_of(writer).pending_size == 0 && written_of(writer).frames == 1);
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    CHECK(sigaction(SIGXFSZ, &before, NULL) == 0);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    OK(pcapzst_records_open(reader, 0, &records));
    CHECK(gives_packets(records, &made, 0, 60) && gives_next(records, PCAPZST_AT_END));
    pcapzst_records_close(records);
    pcapzst_close(reader);
    free_sample(&made);
}

enum { NEXT_ADD, NEXT_FLUSH, NEXT_FINISH, NEXT_CLOSE, NEXT_CALLS };

/* The frame is full with a packet that does not fit it any more: that packet is there, and whole. Whichever call comes next
   writes it when there is room, and any more that came meanwhile. */
static void a_packet_behind_a_frame_that_could_not_be_written_is_not_lost(int next_call) {
    static const char *names[NEXT_CALLS] = {"full-add.pcap.zst", "full-flush.pcap.zst", "full-finish.pcap.zst",
                                            "full-close.pcap.zst"};
    path_name path = at(names[next_call]);
    sample made = make_sample(600, 0, 35);
    pcapzst_writer_options how = {0};
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    pcapzst_records *records = NULL;
    struct sigaction ignored = {0}, before;
    size_t next = 0, extra;
    ignored.sa_handler = SIG_IGN;
    CHECK(sigaction(SIGXFSZ, &ignored, &before) == 0);
    how.frame_target = 50000;
    OK(pcapzst_writer_create(path.text, &how, &writer));
    header_of(writer, &made);
    while (written_of(writer).frames == 0) {
        add_packets(writer, &made, next, next + 1);
        next++;
    }
    set_limit((rlim_t)written_of(writer).physical_size + 10);
    while (add_one(writer, &made, next++) == PCAPZST_OK) CHECK(next < 300);
    for (extra = 0; extra < 3; extra++) GIVES(PCAPZST_E_IO, add_one(writer, &made, next++));
    GIVES(PCAPZST_E_IO, pcapzst_writer_flush(writer));
    GIVES(PCAPZST_E_IO, pcapzst_writer_finish(writer));
    CHECK(written_of(writer).frames == 1 && written_of(writer).pending_size > how.frame_target);
    set_limit(RLIM_INFINITY);
    if (next_call == NEXT_ADD) add_packets(writer, &made, next, made.count);
    if (next_call == NEXT_FLUSH) {
        OK(pcapzst_writer_flush(writer));
        CHECK(written_of(writer).pending_size == 0);
        add_packets(writer, &made, next, made.count);
    }
    if (next_call == NEXT_ADD || next_call == NEXT_FLUSH) next = made.count;
    if (next_call != NEXT_CLOSE) OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    CHECK(sigaction(SIGXFSZ, &before, NULL) == 0);
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    OK(pcapzst_records_open(reader, 0, &records));
    CHECK(gives_packets(records, &made, 0, next));
    CHECK(gives_next(records, next_call == NEXT_CLOSE ? PCAPZST_NOT_YET : PCAPZST_AT_END));
    pcapzst_records_close(records);
    pcapzst_close(reader);
    free_sample(&made);
}

static void a_removed_partial_file_is_not_complete_when_it_is_opened(void) {
    path_name path = at("removed-before.pcap.zst"), partial = partial_of(path);
    sample made = make_sample(8, 0, 33);
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    pcapzst_records *records = NULL;
    pcapzst_packet packet;
    pcapzst_next next;
    int fd;
    OK(pcapzst_writer_create(path.text, NULL, &writer));
    header_of(writer, &made);
    add_packets(writer, &made, 0, 8);
    OK(pcapzst_writer_flush(writer));
    fd = open(partial.text, O_RDONLY);
    OK(pcapzst_writer_abandon(writer));
    OK(pcapzst_open_fd(fd, NULL, &reader, NULL));
    CHECK(info_of(reader).state == PCAPZST_CUT_SHORT && !info_of(reader).is_final);
    OK(pcapzst_records_open(reader, 0, &records));
    CHECK(gives_packets(records, &made, 0, 8));
    GIVES(PCAPZST_E_TORN, pcapzst_records_next(records, &packet, &next));
    pcapzst_records_close(records);
    pcapzst_close(reader);
    close(fd);
    free_sample(&made);
}

static void a_raw_file_beside_it_is_not_taken_for_the_capture(void) {
    path_name path = at("beside.pcap.zst"), raw = at("beside.pcap");
    sample made = make_sample(8, 0, 34);
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    write_file(raw, made.source.data, made.source.size);
    GIVES(PCAPZST_E_IO, pcapzst_open(path.text, NULL, &reader, NULL));
    OK(pcapzst_writer_create(path.text, NULL, &writer));
    OK(pcapzst_writer_write(writer, made.source.data, made.source.size));
    OK(pcapzst_writer_flush(writer));
    OK(pcapzst_open(path.text, NULL, &reader, NULL));
    CHECK(reads_as(reader, made.source.data, made.source.size));
    pcapzst_close(reader);
    OK(pcapzst_writer_abandon(writer));
    free_sample(&made);
}

void test_limits(void) {
    int next_call;
    idle_iterators_keep_no_room_from_others();
    what_could_not_be_written_is_written_when_there_is_room();
    for (next_call = 0; next_call < NEXT_CALLS; next_call++)
        a_packet_behind_a_frame_that_could_not_be_written_is_not_lost(next_call);
    a_removed_partial_file_is_not_complete_when_it_is_opened();
    a_raw_file_beside_it_is_not_taken_for_the_capture();
}
