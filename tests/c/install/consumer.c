/*
 * A small user of the installed C library, for scripts/test-install-c. C99, and C++11 too.
 *
 *     consumer FILE.pcap.zst
 *
 * Writes a capture of three packets, reads it back, and fails to open another. With WITH_ZSTD it also calls the system's
 * libzstd, which must not be mistaken for the one within the library.
 */
#include <pcapzst.h>
#include <stdio.h>
#include <string.h>
#ifdef WITH_ZSTD
#include <zstd.h>
#endif

enum { PACKETS = 3, LENGTH = 64 };

static int failed(const char *what, pcapzst_status status) {
    fprintf(stderr, "consumer: %s: %s: %s\n", what, pcapzst_status_message(status), pcapzst_last_error());
    return 1;
}

static int write_capture(const char *path) {
    pcapzst_writer_options options;
    pcapzst_writer *writer = NULL;
    pcapzst_status status;
    unsigned char data[LENGTH];
    int number;

    memset(&options, 0, sizeof options);
    options.flags = PCAPZST_WRITER_REPLACE;
    status = pcapzst_writer_create(path, &options, &writer);
    if (status != PCAPZST_OK) {
        return failed("create", status);
    }
    status = pcapzst_writer_header(writer, 1, 262144, 1);
    for (number = 0; status == PCAPZST_OK && number < PACKETS; number++) {
        memset(data, number + 1, sizeof data);
        status = pcapzst_writer_add(writer, UINT64_C(1784037600000000000) + (uint64_t)number, data, LENGTH, LENGTH);
    }
    if (status == PCAPZST_OK) {
        status = pcapzst_writer_finish(writer);
    }
    if (status != PCAPZST_OK) {
        failed("write", status);
        pcapzst_writer_close(writer);
        return 1;
    }
    pcapzst_writer_close(writer);
    return 0;
}

static int count_packets(const char *path, int *count) {
    pcapzst_reader *reader = NULL;
    pcapzst_records *records = NULL;
    pcapzst_packet packet;
    pcapzst_next next = PCAPZST_PACKET;
    pcapzst_status status = pcapzst_open(path, NULL, &reader, NULL);

    *count = 0;
    if (status != PCAPZST_OK) {
        return failed("open", status);
    }
    status = pcapzst_records_open(reader, 0, &records);
    while (status == PCAPZST_OK) {
        status = pcapzst_records_next(records, &packet, &next);
        if (status != PCAPZST_OK || next != PCAPZST_PACKET) {
            break;
        }
        *count += 1;
        if (packet.captured_length != LENGTH || packet.data[LENGTH - 1] != *count) {
            fprintf(stderr, "consumer: packet %d is not what was written\n", *count);
            status = PCAPZST_E_INTERNAL;
        }
    }
    if (status != PCAPZST_OK) {
        failed("read", status);
    } else if (next != PCAPZST_AT_END) {
        fprintf(stderr, "consumer: wanted the end of a complete capture, got %d\n", (int)next);
        status = PCAPZST_E_INTERNAL;
    }
    pcapzst_records_close(records);
    pcapzst_close(reader);
    return status != PCAPZST_OK;
}

static int open_nothing(void) {
    const char *path = "/nonexistent/no.pcap.zst";
    pcapzst_reader *reader = NULL;
    pcapzst_status status = pcapzst_open(path, NULL, &reader, NULL);

    if (status != PCAPZST_E_IO || reader != NULL || strstr(pcapzst_last_error(), path) == NULL) {
        fprintf(stderr, "consumer: a file that is not there: wanted status %d and words about it, got %d: %s\n",
                (int)PCAPZST_E_IO, (int)status, pcapzst_last_error());
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    int count;

    if (argc != 2) {
        fprintf(stderr, "usage: consumer FILE.pcap.zst\n");
        return 2;
    }
    if (pcapzst_abi_version() != PCAPZST_ABI_VERSION) {
        fprintf(stderr, "consumer: the header has ABI version %u, the library %u\n", (unsigned)PCAPZST_ABI_VERSION,
                (unsigned)pcapzst_abi_version());
        return 1;
    }
#ifdef WITH_ZSTD
    if (ZSTD_versionNumber() != ZSTD_VERSION_NUMBER) {
        fprintf(stderr, "consumer: zstd.h has version %u, the function called %u\n", (unsigned)ZSTD_VERSION_NUMBER,
                ZSTD_versionNumber());
        return 1;
    }
#endif
    if (write_capture(argv[1]) || count_packets(argv[1], &count) || open_nothing()) {
        return 1;
    }
    printf("%d packets\n", count);
    return count != PACKETS;
}
