/* Readers: opened by path, descriptor and memory. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pcapzst_reader *const some_reader = (pcapzst_reader *)&folder;

static void a_finished_capture_opens_by_either_name(const sample *made) {
    path_name path = at("either.pcap.zst"), partial = partial_of(path);
    const path_name *names[2];
    int i;
    names[0] = &path;
    names[1] = &partial;
    write_capture(path, made);
    for (i = 0; i < 2; i++) {
        pcapzst_reader *reader = NULL;
        uint32_t version = 9;
        OK(pcapzst_open(names[i]->text, NULL, &reader, &version));
        CHECK(reader != NULL && version == 1);
        CHECK(reads_as(reader, made->source.data, made->source.size));
        CHECK(info_of(reader).state == PCAPZST_COMPLETE);
        pcapzst_close(reader);
    }
}

static void a_growing_capture_opens_by_either_name(const sample *made) {
    path_name path = at("growing.pcap.zst"), partial = partial_of(path);
    const path_name *names[2];
    pcapzst_writer *writer = NULL;
    int i;
    names[0] = &path;
    names[1] = &partial;
    OK(pcapzst_writer_create(path.text, NULL, &writer));
    CHECK(exists(partial) && !exists(path));
    header_of(writer, made);
    add_packets(writer, made, 0, 3);
    OK(pcapzst_writer_flush(writer));
    for (i = 0; i < 2; i++) {
        pcapzst_reader *reader = NULL;
        pcapzst_reader_options options = {0, 0};
        OK(pcapzst_open(names[i]->text, &options, &reader, NULL));
        CHECK(info_of(reader).state == PCAPZST_GROWING && pcapzst_frame_count(reader) == 1);
        pcapzst_close(reader);
    }
    OK(pcapzst_writer_abandon(writer));
}

static void a_capture_without_its_header_opens_and_names_its_version(void) {
    path_name path = at("young.pcap.zst");
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    pcapzst_info info;
    uint8_t byte = 7;
    uint32_t version = 9;
    OK(pcapzst_writer_create(path.text, NULL, &writer));
    OK(pcapzst_open(path.text, NULL, &reader, &version));
    CHECK(version == 1);
    info = info_of(reader);
    CHECK(info.state == PCAPZST_GROWING && info.magic == PCAPZST_NO_MAGIC && info.source_size == 0);
    CHECK(info.prologue_size == 0 && info.frames == 0 && info.ts_unit_ns == 0 && info.snaplen == 0);
    CHECK(info.file_id_ts_ns == 0 && info.file_id_crc32 == 0 && info.link_type == 0 && info.version_major == 0);
    GIVES(PCAPZST_E_TORN, pcapzst_read_prologue(reader, &byte, 1));
    CHECK(byte == 7);
    pcapzst_close(reader);
    OK(pcapzst_writer_abandon(writer));
}

static void opening_what_is_not_there_fails_with_errno(void) {
    pcapzst_reader *reader = some_reader;
    uint32_t version = 9;
    path_name path = at("nowhere.pcap.zst");
    errno = 0;
    GIVES(PCAPZST_E_IO, pcapzst_open(path.text, NULL, &reader, &version));
    CHECK(errno == ENOENT && !reader && version == 0);
    CHECK(strstr(pcapzst_last_error(), "nowhere.pcap.zst") != NULL);
    reader = some_reader;
    GIVES(PCAPZST_E_IO, pcapzst_open("", NULL, &reader, NULL));
    CHECK(!reader);
    reader = some_reader;
    GIVES(PCAPZST_E_IO, pcapzst_open(folder, NULL, &reader, NULL));
    CHECK(!reader);
}

static void opening_takes_no_null(const bytes *stored) {
    pcapzst_reader *reader = some_reader;
    uint32_t version = 9;
    GIVES(PCAPZST_E_INVALID, pcapzst_open(NULL, NULL, &reader, &version));
    CHECK(!reader && version == 0);
    reader = some_reader, version = 9;
    GIVES(PCAPZST_E_INVALID, pcapzst_open_memory(NULL, 5, NULL, &reader, &version));
    CHECK(!reader && version == 0);
    reader = some_reader, version = 9;
    GIVES(PCAPZST_E_INVALID, pcapzst_open_memory(stored->data, 0, NULL, &reader, &version));
    CHECK(!reader && version == 0);
    version = 9;
    GIVES(PCAPZST_E_INVALID, pcapzst_open(folder, NULL, NULL, &version));
    CHECK(version == 0);
    version = 9;
    GIVES(PCAPZST_E_INVALID, pcapzst_open_fd(0, NULL, NULL, &version));
    CHECK(version == 0);
    version = 9;
    GIVES(PCAPZST_E_INVALID, pcapzst_open_memory(stored->data, stored->size, NULL, NULL, &version));
    CHECK(version == 0);
    pcapzst_close(NULL);
}

static void a_descriptor_stays_the_callers(const sample *made) {
    path_name path = at("descriptor.pcap.zst");
    pcapzst_reader *reader = NULL;
    uint32_t version = 9;
    uint8_t first[4];
    int fd;
    write_capture(path, made);
    fd = open(path.text, O_RDONLY);
    CHECK(lseek(fd, 10, SEEK_SET) == 10);
    OK(pcapzst_open_fd(fd, NULL, &reader, &version));
    CHECK(version == 1 && info_of(reader).state == PCAPZST_COMPLETE);
    CHECK(reads_as(reader, made->source.data, made->source.size));
    CHECK(lseek(fd, 0, SEEK_CUR) == 10);
    pcapzst_close(reader);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && read(fd, first, 4) == 4 && first[0] == 0x50);
    reader = NULL;
    OK(pcapzst_open_fd(fd, NULL, &reader, NULL));
    close(fd);
    CHECK(reads_as(reader, made->source.data, made->source.size));
    pcapzst_close(reader);
}

static void a_descriptor_of_a_growing_capture_is_followed(const sample *made) {
    path_name path = at("followed.pcap.zst"), partial = partial_of(path);
    pcapzst_writer *writer = NULL;
    pcapzst_reader *reader = NULL;
    pcapzst_state state = PCAPZST_DAMAGED;
    int fd;
    OK(pcapzst_writer_create(path.text, NULL, &writer));
    header_of(writer, made);
    fd = open(partial.text, O_RDONLY);
    OK(pcapzst_open_fd(fd, NULL, &reader, NULL));
    close(fd);
    CHECK(info_of(reader).state == PCAPZST_GROWING);
    add_packets(writer, made, 0, 2);
    OK(pcapzst_writer_finish(writer));
    pcapzst_writer_close(writer);
    OK(pcapzst_refresh(reader, &state));
    CHECK(state == PCAPZST_COMPLETE && pcapzst_frame_count(reader) == 1);
    pcapzst_close(reader);
}

static void a_descriptor_of_no_regular_file_is_refused(void) {
    pcapzst_reader *reader = some_reader;
    uint32_t version = 9;
    int ends[2], null = open("/dev/null", O_RDONLY);
    CHECK(pipe(ends) == 0);
    errno = 0;
    GIVES(PCAPZST_E_IO, pcapzst_open_fd(null, NULL, &reader, &version));
    CHECK(errno == EINVAL && !reader && version == 0);
    reader = some_reader, errno = 0;
    GIVES(PCAPZST_E_IO, pcapzst_open_fd(ends[0], NULL, &reader, NULL));
    CHECK(errno == EINVAL && !reader);
    close(null), close(ends[0]), close(ends[1]);
    reader = some_reader, errno = 0;
    GIVES(PCAPZST_E_IO, pcapzst_open_fd(-1, NULL, &reader, NULL));
    CHECK(errno == EBADF && !reader);
    reader = some_reader, errno = 0;
    GIVES(PCAPZST_E_IO, pcapzst_open_fd(ends[0], NULL, &reader, NULL));
    CHECK(errno == EBADF && !reader);
}

/* The same bytes in memory, by path and by descriptor are refused alike. */
static void refused(const void *data, size_t size, pcapzst_status wanted, uint32_t wanted_version) {
    path_name path = at("refused.pcap.zst");
    pcapzst_reader *reader = some_reader;
    uint32_t version = 9;
    int fd;
    GIVES(wanted, pcapzst_open_memory(data, size, NULL, &reader, &version));
    CHECK(!reader && version == wanted_version);
    write_file(path, data, size);
    reader = some_reader, version = 9;
    GIVES(wanted, pcapzst_open(path.text, NULL, &reader, &version));
    CHECK(!reader && version == wanted_version);
    CHECK(strstr(pcapzst_last_error(), "refused.pcap.zst") != NULL);
    fd = open(path.text, O_RDONLY);
    reader = some_reader, version = 9;
    GIVES(wanted, pcapzst_open_fd(fd, NULL, &reader, &version));
    CHECK(!reader && version == wanted_version);
    close(fd);
    unlink(path.text);
}

static void what_is_no_capture_of_this_version_is_refused(const sample *made, bytes *stored) {
    refused(made->source.data, made->source.size, PCAPZST_E_NOT_MARKED, 0);
    stored->data[12] = 2;
    refused(stored->data, stored->size, PCAPZST_E_VERSION, 2);
    stored->data[12] = 1;
    /* The header frame's checksum. */
    stored->data[header_frame_end(stored) - 1] ^= 1;
    refused(stored->data, stored->size, PCAPZST_E_ZSTD, 1);
    stored->data[header_frame_end(stored) - 1] ^= 1;
    /* Its content size. */
    stored->data[19] ^= 1;
    refused(stored->data, stored->size, PCAPZST_E_FORMAT, 1);
    stored->data[19] ^= 1;
}

void test_opening(void) {
    sample made = make_sample(40, 0, 1);
    bytes stored = stored_capture("opening.pcap.zst", &made);
    a_finished_capture_opens_by_either_name(&made);
    a_growing_capture_opens_by_either_name(&made);
    a_capture_without_its_header_opens_and_names_its_version();
    opening_what_is_not_there_fails_with_errno();
    opening_takes_no_null(&stored);
    a_descriptor_stays_the_callers(&made);
    a_descriptor_of_a_growing_capture_is_followed(&made);
    a_descriptor_of_no_regular_file_is_refused();
    what_is_no_capture_of_this_version_is_refused(&made, &stored);
    free(stored.data);
    free_sample(&made);
}

static void opens_cut_at(const sample *made, const bytes *stored, size_t size) {
    /* Exactly as long as the prefix, for the sanitizer to see a read behind it. */
    uint8_t *prefix = room(size);
    pcapzst_reader *reader = NULL;
    uint32_t version = 9;
    pcapzst_status status;
    memcpy(prefix, stored->data, size);
    status = pcapzst_open_memory(prefix, size, NULL, &reader, &version);
    CHECK(status == PCAPZST_OK || status == PCAPZST_E_NOT_MARKED || status == PCAPZST_E_TORN);
    CHECK((reader != NULL) == (status == PCAPZST_OK));
    if (reader) {
        pcapzst_info info = info_of(reader);
        pcapzst_records *records = NULL;
        pcapzst_packet packet;
        pcapzst_next next = PCAPZST_PACKET;
        CHECK(info.physical_size == size && info.torn_bytes <= size && info.fault == PCAPZST_OK);
        CHECK(info.state == PCAPZST_COMPLETE || info.state == PCAPZST_CUT_SHORT);
        CHECK((info.state == PCAPZST_COMPLETE) == (info.torn_bytes == 0 && info.prologue_size > 0));
        CHECK(info.source_size <= made->source.size);
        CHECK(reads_as(reader, made->source.data, (size_t)info.source_size));
        OK(pcapzst_refresh(reader, NULL));
        OK(pcapzst_records_open(reader, info.frames, &records));
        status = pcapzst_records_next(records, &packet, &next);
        CHECK(status == (info.state == PCAPZST_COMPLETE ? PCAPZST_OK : PCAPZST_E_TORN));
        CHECK(next == (info.state == PCAPZST_COMPLETE ? PCAPZST_AT_END : PCAPZST_NOT_YET));
        pcapzst_records_close(records);
    }
    /* The version is the thirteenth byte. */
    CHECK(version == (size >= 13 ? 1u : 0u));
    pcapzst_close(reader);
    free(prefix);
}

void test_prefixes(void) {
    sample made = make_sample(40, 0, 2);
    bytes stored = stored_capture("prefixes.pcap.zst", &made);
    pcapzst_reader *reader = NULL;
    uint64_t index, count;
    size_t size;
    OK(pcapzst_open_memory(stored.data, stored.size, NULL, &reader, NULL));
    count = pcapzst_frame_count(reader);
    CHECK(count > 3 && reads_as(reader, made.source.data, made.source.size));
    CHECK(info_of(reader).state == PCAPZST_COMPLETE);
    for (size = 1; size <= 80; size++) opens_cut_at(&made, &stored, size);
    for (index = 0; index < count; index++) {
        pcapzst_frame_info frame = frame_of(reader, index);
        size_t start = (size_t)frame.physical_offset, end = start + (size_t)frame.physical_size;
        opens_cut_at(&made, &stored, start);
        opens_cut_at(&made, &stored, start + 1);
        opens_cut_at(&made, &stored, start + 7);
        opens_cut_at(&made, &stored, (start + end) / 2);
        opens_cut_at(&made, &stored, end - 1);
        opens_cut_at(&made, &stored, end);
    }
    pcapzst_close(reader);
    free(stored.data);
    free_sample(&made);
}
