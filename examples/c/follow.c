/*
 * Prints a line for each packet of a capture as it grows, until it is complete:
 *
 *     follow CAPTURE
 *
 *     SECONDS.NANOSECONDS CAPTURED/ORIGINAL
 *
 * CAPTURE is either name of it: x.pcap.zst or x.pcap.zst.partial. Ends with 0 when the capture is complete and every
 * packet was printed; otherwise with the exit codes of the pcapzst command.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pcapzst.h"

/* File systems over a network tell of no change that another machine makes: look once a second at least. */
#define LOOK_AFTER_MS 1000

enum { EXIT_DONE = 0, EXIT_OTHER = 1, EXIT_USAGE = 2, EXIT_FORMAT = 3, EXIT_DAMAGED = 4, EXIT_INCOMPLETE = 5 };

static int exit_code(pcapzst_status status) {
    switch (status) {
    case PCAPZST_OK:
        return EXIT_DONE;
    case PCAPZST_E_NOT_MARKED:
    case PCAPZST_E_VERSION:
        return EXIT_FORMAT;
    case PCAPZST_E_FORMAT:
    case PCAPZST_E_ZSTD:
        return EXIT_DAMAGED;
    case PCAPZST_E_TORN:
    case PCAPZST_E_CHANGED:
        return EXIT_INCOMPLETE;
    default:
        return EXIT_OTHER;
    }
}

/* At once, before another call of this thread can fail. */
static int fail(pcapzst_status status) {
    fprintf(stderr, "follow: %s\n", pcapzst_last_error());
    return exit_code(status);
}

static int fail_to_write(void) {
    fprintf(stderr, "follow: standard output: %s\n", strerror(errno));
    return EXIT_OTHER;
}

static int print_packet(const pcapzst_packet *packet) {
    return printf("%" PRIu64 ".%09" PRIu64 " %" PRIu32 "/%" PRIu32 "\n", packet->ts_ns / 1000000000,
                  packet->ts_ns % 1000000000, packet->captured_length, packet->original_length);
}

static int follow(const pcapzst_reader *reader, pcapzst_records *records) {
    for (;;) {
        pcapzst_packet packet;
        pcapzst_next next;
        pcapzst_status status = pcapzst_records_next(records, &packet, &next);
        if (status == PCAPZST_OK && next == PCAPZST_PACKET) {
            if (print_packet(&packet) < 0)
                return fail_to_write();
            continue;
        }
        /* All that is there now is printed: what is read from a pipe is to arrive before the wait. */
        if (fflush(stdout) != 0)
            return fail_to_write();
        if (status != PCAPZST_OK)
            return fail(status);
        if (next == PCAPZST_AT_END)
            return EXIT_DONE;
        status = pcapzst_wait(reader, LOOK_AFTER_MS);
        if (status != PCAPZST_OK)
            return fail(status);
    }
}

int main(int argc, char **argv) {
    pcapzst_reader *reader;
    pcapzst_records *records;
    pcapzst_status status;
    int code;

    if (argc != 2) {
        fprintf(stderr, "usage: follow CAPTURE\n");
        return EXIT_USAGE;
    }
    if (pcapzst_abi_version() != PCAPZST_ABI_VERSION) {
        fprintf(stderr, "follow: built for ABI %d of libpcapzst, found %" PRIu32 "\n", PCAPZST_ABI_VERSION,
                pcapzst_abi_version());
        return EXIT_OTHER;
    }
    status = pcapzst_open(argv[1], NULL, &reader, NULL);
    if (status != PCAPZST_OK)
        return fail(status);
    status = pcapzst_records_open(reader, 0, &records);
    code = status == PCAPZST_OK ? follow(reader, records) : fail(status);
    pcapzst_records_close(records);
    pcapzst_close(reader);
    return code;
}
