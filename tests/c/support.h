/* What the C tests share: counted checks, and captures that the library's own writer makes. */
#ifndef PCAPZST_TEST_SUPPORT_H
#define PCAPZST_TEST_SUPPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pcapzst.h"

/* Both may be called by several threads at once. */
void check_that(int is_right, const char *file, int line, const char *text);
void check_status(pcapzst_status got, pcapzst_status wanted, const char *file, int line, const char *text);

#define CHECK(expression) check_that(!!(expression), __FILE__, __LINE__, #expression)
#define GIVES(wanted, call) check_status((call), (wanted), __FILE__, __LINE__, #call " gives " #wanted)
#define OK(call) GIVES(PCAPZST_OK, call)

/* Prints how many checks there were; whether none failed. */
int all_right(void);

typedef struct {
    char text[512];
} path_name;

/* A name in the folder that the program was given. */
extern const char *folder;
path_name at(const char *name);
path_name partial_of(path_name path);
int exists(path_name path);

/* Whole files; the program ends when that cannot be had. */
typedef struct {
    uint8_t *data;
    size_t size;
} bytes;

bytes read_file(path_name path);
void write_file(path_name path, const void *data, size_t size);
void append_file(path_name path, const void *data, size_t size);
void *room(size_t size);

typedef struct {
    uint64_t ts_ns;
    uint64_t source_offset;
    uint32_t captured_length;
    uint32_t original_length;
} made_packet;

#define SNAPLEN 65535u
#define LINK_TYPE 1u
#define GLOBAL_HEADER 24u
#define RECORD_HEADER 16u

/* A pcap file's bytes, and what packets are in it. */
typedef struct {
    bytes source;
    made_packet *packets;
    size_t count;
    int is_nanoseconds;
} sample;

sample make_sample(size_t count, int is_nanoseconds, uint32_t seed);
void free_sample(sample *made);
const uint8_t *packet_data(const sample *made, size_t index);

/* Adds packets [from, to), one by one. */
void add_packets(pcapzst_writer *writer, const sample *made, size_t from, size_t to);
void header_of(pcapzst_writer *writer, const sample *made);
/* Writes and finishes a capture with frames of about 4 KiB. */
void write_capture(path_name path, const sample *made);
/* The bytes of such a capture. */
bytes stored_capture(const char *name, const sample *made);

/* Where the header frame of a capture of ours ends, by its one block header: docs/FORMAT.md. */
size_t header_frame_end(const bytes *stored);

pcapzst_info info_of(const pcapzst_reader *reader);
pcapzst_frame_info frame_of(const pcapzst_reader *reader, uint64_t index);
pcapzst_written written_of(const pcapzst_writer *writer);
/* Whether pcapzst_read gives exactly `size` bytes from `source` on. */
int reads_as(const pcapzst_reader *reader, const uint8_t *source, size_t size);
/* Whether the iterator's next packets are [from, to), each with all its fields. */
int gives_packets(pcapzst_records *records, const sample *made, size_t from, size_t to);
/* Whether the next call gives no packet but `wanted`. */
int gives_next(pcapzst_records *records, pcapzst_next wanted);
int is_all(const void *data, uint8_t value, size_t size);

void test_versions_and_messages(void);
void test_opening(void);
void test_prefixes(void);
void test_reading(void);
void test_damage(void);
void test_batch(void);
void test_threads(void);
void test_records(void);
void test_following(void);
void test_writing(void);
void test_writer_refusals(void);
void test_names_of_writers(void);
void test_finishing(void);
void test_killed_writers(void);
void test_limits(void);

#endif
