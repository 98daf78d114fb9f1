/*
 * Sends a growing capture on, without recompression, until it is complete:
 *
 *     relay CAPTURE > COPY.pcap.zst
 *
 * Writes the prologue, then each stored frame as soon as all of it is on disk. What was written is a capture of this
 * format at any time. CAPTURE is either name of it. Exit codes are those of the pcapzst command.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pcapzst.h"

/* File systems over a network tell of no change that another machine makes: look once a second at least. */
#define LOOK_AFTER_MS 1000

enum { EXIT_DONE = 0, EXIT_OTHER = 1, EXIT_USAGE = 2, EXIT_FORMAT = 3, EXIT_DAMAGED = 4, EXIT_INCOMPLETE = 5 };

/* One buffer, as large as the largest frame so far. */
typedef struct {
    void *data;
    uint64_t size;
} buffer;

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

static int fail(pcapzst_status status) {
    fprintf(stderr, "relay: %s\n", pcapzst_last_error());
    return exit_code(status);
}

static int fail_with(const char *words, int code) {
    fprintf(stderr, "relay: %s\n", words);
    return code;
}

static int grow(buffer *buffer, uint64_t size) {
    void *data;
    if (size <= buffer->size)
        return 1;
    data = size <= SIZE_MAX ? realloc(buffer->data, (size_t)size) : NULL;
    if (data == NULL)
        return 0;
    buffer->data = data;
    buffer->size = size;
    return 1;
}

static int put(const buffer *buffer, uint64_t size) {
    if (fwrite(buffer->data, 1, (size_t)size, stdout) == (size_t)size)
        return EXIT_DONE;
    return fail_with(strerror(errno), EXIT_OTHER);
}

static int send_prologue(const pcapzst_reader *reader, buffer *buffer, uint64_t size) {
    pcapzst_status status;
    if (!grow(buffer, size))
        return fail_with("no memory", EXIT_OTHER);
    status = pcapzst_read_prologue(reader, buffer->data, buffer->size);
    return status == PCAPZST_OK ? put(buffer, size) : fail(status);
}

static int send_frame(const pcapzst_reader *reader, buffer *buffer, uint64_t index) {
    pcapzst_frame_info frame;
    pcapzst_status status = pcapzst_frame_info_at(reader, index, &frame);
    if (status != PCAPZST_OK)
        return fail(status);
    if (!grow(buffer, frame.physical_size))
        return fail_with("no memory", EXIT_OTHER);
    status = pcapzst_read_stored(reader, index, buffer->data, buffer->size);
    return status == PCAPZST_OK ? put(buffer, frame.physical_size) : fail(status);
}

static int relay(const pcapzst_reader *reader, buffer *buffer) {
    uint64_t sent = 0;
    int has_prologue = 0;
    for (;;) {
        pcapzst_info info;
        /* Frames before a fault are good, and are sent. Nothing below fails but by ending: the words stay. */
        pcapzst_status looked = pcapzst_refresh(reader, NULL);
        pcapzst_status status = pcapzst_get_info(reader, &info);
        int code = EXIT_DONE;
        if (status != PCAPZST_OK)
            return fail(status);
        if (!has_prologue && info.prologue_size > 0) {
            code = send_prologue(reader, buffer, info.prologue_size);
            has_prologue = 1;
        }
        for (; code == EXIT_DONE && sent < info.frames; sent++)
            code = send_frame(reader, buffer, sent);
        if (code != EXIT_DONE)
            return code;
        if (fflush(stdout) != 0)
            return fail_with(strerror(errno), EXIT_OTHER);
        if (looked != PCAPZST_OK)
            return fail(looked);
        if (info.state == PCAPZST_COMPLETE)
            return EXIT_DONE;
        if (info.state == PCAPZST_DAMAGED)
            return fail_with(pcapzst_status_message(info.fault), exit_code(info.fault));
        if (info.state == PCAPZST_CUT_SHORT)
            return fail_with("not whole, and no more can come", EXIT_INCOMPLETE);
        status = pcapzst_wait(reader, LOOK_AFTER_MS);
        if (status != PCAPZST_OK)
            return fail(status);
    }
}

int main(int argc, char **argv) {
    buffer buffer = {NULL, 0};
    pcapzst_reader *reader;
    pcapzst_status status;
    int code;

    if (argc != 2)
        return fail_with("usage: relay CAPTURE > COPY.pcap.zst", EXIT_USAGE);
    if (pcapzst_abi_version() != PCAPZST_ABI_VERSION)
        return fail_with("built for another ABI of libpcapzst", EXIT_OTHER);
    status = pcapzst_open(argv[1], NULL, &reader, NULL);
    if (status != PCAPZST_OK)
        return fail(status);
    code = relay(reader, &buffer);
    free(buffer.data);
    pcapzst_close(reader);
    return code;
}
