/* A whole capture decoded: by libpcapzst, and by a straight loop over libzstd. Prints seconds.
 *
 *   library loop|frames FILE       one thread, frame by frame into one buffer
 *   library batch THREADS FILE     64 frames at once, by so many threads
 *
 * Each reads the file, finds its frames and decodes them: what an open and a walk cost is in the figure. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <pcapzst.h>
#include <zstd.h>

#define AT_ONCE 64

static void fail(const char *what) {
  fprintf(stderr, "library: %s\n", what);
  exit(1);
}

static void *room(size_t size) {
  void *memory = malloc(size);
  if (memory == NULL)
    fail("no memory");
  return memory;
}

/* Grows a buffer; what it held is not kept. */
static void *larger(void *memory, size_t *have, size_t wanted) {
  if (wanted <= *have)
    return memory;
  free(memory);
  *have = wanted;
  return room(wanted);
}

static unsigned long long loop(const char *path) {
  int fd = open(path, O_RDONLY);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0)
    fail("opening");
  size_t size = (size_t)status.st_size, have = 0, at;
  char *file = room(size), *out = NULL;
  for (at = 0; at < size;) {
    ssize_t got = read(fd, file + at, size - at);
    if (got <= 0)
      fail("reading");
    at += (size_t)got;
  }
  close(fd);
  ZSTD_DCtx *context = ZSTD_createDCtx();
  unsigned long long total = 0;
  for (at = 0; at < size;) {
    size_t length = ZSTD_findFrameCompressedSize(file + at, size - at);
    if (ZSTD_isError(length))
      fail(ZSTD_getErrorName(length));
    size_t content = (size_t)ZSTD_getFrameContentSize(file + at, size - at);
    /* 0 of the marker: a skippable frame. */
    if (content > 0) {
      out = larger(out, &have, content);
      size_t decoded = ZSTD_decompressDCtx(context, out, content, file + at, length);
      if (ZSTD_isError(decoded))
        fail(ZSTD_getErrorName(decoded));
      total += decoded;
    }
    at += length;
  }
  ZSTD_freeDCtx(context);
  free(out);
  free(file);
  return total;
}

static unsigned long long frames(const char *path, int threads) {
  pcapzst_reader *reader;
  if (pcapzst_open(path, NULL, &reader, NULL) != PCAPZST_OK)
    fail(pcapzst_last_error());
  uint64_t count = pcapzst_frame_count(reader), first, slots = threads < 0 ? 1 : AT_ONCE;
  uint64_t indices[AT_ONCE], sizes[AT_ONCE] = {0};
  void *buffers[AT_ONCE] = {NULL};
  size_t have[AT_ONCE] = {0};
  pcapzst_frame_info infos[AT_ONCE];
  unsigned long long total = 24;
  for (first = 0; first < count; first += slots) {
    uint64_t now = count - first < slots ? count - first : slots, slot;
    if (pcapzst_frame_info_range(reader, first, now, infos) != PCAPZST_OK)
      fail(pcapzst_last_error());
    for (slot = 0; slot < now; slot++) {
      indices[slot] = first + slot;
      buffers[slot] = larger(buffers[slot], &have[slot], (size_t)infos[slot].source_size);
      sizes[slot] = have[slot];
      total += infos[slot].source_size;
    }
    pcapzst_status status =
        threads < 0 ? pcapzst_decode_frame(reader, first, buffers[0], sizes[0])
                    : pcapzst_decode_frames(reader, indices, now, buffers, sizes, threads, NULL);
    if (status != PCAPZST_OK)
      fail(pcapzst_last_error());
  }
  for (first = 0; first < AT_ONCE; first++)
    free(buffers[first]);
  pcapzst_close(reader);
  return total;
}

int main(int argc, char **argv) {
  struct timespec began, ended;
  unsigned long long total;
  if (argc < 3)
    fail("usage: library loop|frames FILE, or library batch THREADS FILE");
  clock_gettime(CLOCK_MONOTONIC, &began);
  if (strcmp(argv[1], "loop") == 0)
    total = loop(argv[2]);
  else if (strcmp(argv[1], "frames") == 0)
    total = frames(argv[2], -1);
  else if (argc == 4)
    total = frames(argv[3], atoi(argv[2]));
  else
    fail("what is wanted?");
  clock_gettime(CLOCK_MONOTONIC, &ended);
  printf("%.9f\n", (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9);
  fprintf(stderr, "%llu\n", total);
  return 0;
}
