/*
 * libpcapzst: reader and writer of growing compressed captures (.pcap.zst) for C99 and C++11. Linux only.
 *
 * Made from src/capi by tests/c_header.rs: change it there. docs/C_LIBRARY.md is the manual.
 *
 * What holds everywhere:
 *
 * - First compare PCAPZST_ABI_VERSION with pcapzst_abi_version(); where they differ, call nothing else.
 * - A function that can fail returns a pcapzst_status. pcapzst_last_error() has the words: file, frame, physical offset,
 *   wanted and got. Nothing else crosses the boundary: no exception, no panic, no signal.
 * - Out-parameters are written as documented, and are NULL or zero after a failure. Those that may be NULL say so.
 * - A pointer is valid, of its type, aligned, and nobody else's during the call. Where it may be NULL, that is said;
 *   anywhere else NULL is PCAPZST_E_INVALID.
 * - Buffers to fill are the caller's, always.
 * - Offsets and sizes are in bytes. A source offset counts in the pcap file that is stored, a physical offset in the
 *   file on disk. Ranges are a start and a length.
 * - The library starts no threads but those of pcapzst_decode_frames, which end before it returns. After fork() use
 *   objects in the parent or in the child, not in both.
 */


#ifndef PCAPZST_H
#define PCAPZST_H

#include <stdint.h>

/*
 The version of this header. Raised by every change of it, additions included: compare for equality with what
 pcapzst_abi_version() says, and call nothing else where they differ.
 */
#define PCAPZST_ABI_VERSION 1

/*
 The newest version of the file format that this header's library reads; at run time pcapzst_max_format_version().
 */
#define PCAPZST_FORMAT_VERSION_MAX 1

/*
 As `n_threads`: one for each MiB of source bytes in all, up to one for each processor.
 */
#define PCAPZST_THREADS_AUTO INT32_MAX

/*
 As `*failed_slot`: no slot in particular.
 */
#define PCAPZST_SLOT_NONE UINT64_MAX

/*
 As `flags`: replace a file, or a partial one, that is there.
 */
#define PCAPZST_WRITER_REPLACE 1

/*
 As `flags`: go on behind the last whole frame of a partial file that a writer left, its torn end cut off; start anew where there is
 none. A file under the final name is PCAPZST_E_EXISTS. Where the global header is there already (has_header), packets may be
 added at once.
 */
#define PCAPZST_WRITER_RESUME 2

/*
 What became of a call. A number is never given another meaning.

 FORMAT and ZSTD are damage. IO and NOMEM are the machine's. All others are refusals, or answers: nothing is wrong with what
 was asked about.
 */
typedef enum {
  /*
   Done.
   */
  PCAPZST_OK = 0,
  /*
   A system call failed; errno tells which way.
   */
  PCAPZST_E_IO = 1,
  /*
   Damaged: the bytes break the format's rules.
   */
  PCAPZST_E_FORMAT = 2,
  /*
   Damaged: zstd rejects a frame, its checksum included. Of a writer: zstd rejects a parameter.
   */
  PCAPZST_E_ZSTD = 3,
  /*
   An index, a count or an offset is out of range, or a buffer is too small; nothing was written to it.
   */
  PCAPZST_E_RANGE = 4,
  /*
   No memory.
   */
  PCAPZST_E_NOMEM = 5,
  /*
   NULL where there must be something, or a call that makes no sense now.
   */
  PCAPZST_E_INVALID = 6,
  /*
   Not a file of this format: its marker is missing. Raw captures are libpcap's.
   */
  PCAPZST_E_NOT_MARKED = 7,
  /*
   A version of the format that this library does not know.
   */
  PCAPZST_E_VERSION = 8,
  /*
   Incomplete, and no more can come: removed before it was complete, or bytes in memory that end within a frame. Of a
   writer: what was written ends within a header or record. No damage.
   */
  PCAPZST_E_TORN = 9,
  /*
   Another writer has the file now. Worth trying again.
   */
  PCAPZST_E_BUSY = 10,
  /*
   The name is taken, or a partial file holds another capture.
   */
  PCAPZST_E_EXISTS = 11,
  /*
   The file became another one, or shorter, under the caller: refresh, or open it again.
   */
  PCAPZST_E_CHANGED = 12,
  /*
   Sound, and larger than the limit that the reader was opened with, or that the format sets.
   */
  PCAPZST_E_LIMIT = 13,
  /*
   A fault of this library; please report it.
   */
  PCAPZST_E_INTERNAL = 14,
} pcapzst_status;

/*
 Where a capture stands.
 */
typedef enum {
  /*
   Being written: it has its partial name.
   */
  PCAPZST_GROWING = 0,
  /*
   It has its final name, and a tail that is no whole frame yet: the writer's last bytes are on their way, or it was cut.
   */
  PCAPZST_DRAINING = 1,
  /*
   Final name, and every byte in whole frames. Nothing more comes.
   */
  PCAPZST_COMPLETE = 2,
  /*
   A frame is malformed, does not decode, or is larger than max_frame_size (then fault is PCAPZST_E_LIMIT). What is before
   and, unless the walk ended there, behind it can be read.
   */
  PCAPZST_DAMAGED = 3,
  /*
   No more can come, though it is not known to be whole: its file was removed, or written over with another capture, or it is
   in memory and ends within a frame.
   */
  PCAPZST_CUT_SHORT = 4,
} pcapzst_state;

/*
 Byte order and time unit of a capture's source, as its first four bytes tell.
 */
typedef enum {
  /*
   No global header yet.
   */
  PCAPZST_NO_MAGIC = 0,
  /*
   Little-endian, microseconds: d4 c3 b2 a1.
   */
  PCAPZST_LE_US = 1,
  /*
   Big-endian, microseconds: a1 b2 c3 d4.
   */
  PCAPZST_BE_US = 2,
  /*
   Little-endian, nanoseconds: 4d 3c b2 a1.
   */
  PCAPZST_LE_NS = 3,
  /*
   Big-endian, nanoseconds: a1 b2 3c 4d.
   */
  PCAPZST_BE_NS = 4,
} pcapzst_magic;

/*
 What comes next.
 */
typedef enum {
  /*
   Nothing now; more may come: pcapzst_wait, then ask again. Of a capture that was cut and then given its final name
   (PCAPZST_DRAINING) it may be the answer for ever.
   */
  PCAPZST_NOT_YET = 0,
  /*
   A packet.
   */
  PCAPZST_PACKET = 1,
  /*
   Nothing any more: the capture is complete, and every packet was given.
   */
  PCAPZST_AT_END = 2,
} pcapzst_next;

/*
 A capture, open for reading.

 Owner: who opened it, until pcapzst_close. Threads: every function that takes a const reader may be called by any number of
 threads at once; pcapzst_close by one, when the others are done.
 */
typedef struct pcapzst_reader pcapzst_reader;

/*
 An iterator over the packets of a reader.

 Owner: who opened it, until pcapzst_records_close. Threads: one at a time; several iterators of one reader are
 independent. It may outlive the reader, but not the memory that that was opened on.
 */
typedef struct pcapzst_records pcapzst_records;

/*
 A capture that is written.

 Owner: who created it, until pcapzst_writer_close or pcapzst_writer_abandon. Threads: one at a time.
 */
typedef struct pcapzst_writer pcapzst_writer;

/*
 A data frame: whole pcap records, compressed. Offsets and sizes in bytes.
 */
typedef struct {
  /*
   Of its first byte in the source, the pcap file that is stored.
   */
  uint64_t source_offset;
  /*
   In the source.
   */
  uint64_t source_size;
  /*
   Of its first byte in the file.
   */
  uint64_t physical_offset;
  /*
   In the file.
   */
  uint64_t physical_size;
} pcapzst_frame_info;

/*
 How to open a reader. All zeros, as NULL in its place, is the default.
 */
typedef struct {
  /*
   Bytes of memory for decoded frames, at most; 0 for 256 MiB. What pcapzst_read touches is kept.
   */
  uint64_t cache_size;
  /*
   The largest frame that is decoded, in source bytes; 0 for 64 MiB. Never more than a quarter of cache_size.
   */
  uint64_t max_frame_size;
} pcapzst_reader_options;

/*
 What is known of a capture since the last look at its file.
 */
typedef struct {
  /*
   Where it stands.
   */
  pcapzst_state state;
  /*
   The first fault found so far; PCAPZST_OK if there is none.
   */
  pcapzst_status fault;
  /*
   Source bytes in whole frames, global header included: what can be read.
   */
  uint64_t source_size;
  /*
   Bytes of the file.
   */
  uint64_t physical_size;
  /*
   Data frames.
   */
  uint64_t frames;
  /*
   Bytes at the end of the file that are no whole frame yet.
   */
  uint64_t torn_bytes;
  /*
   Bytes of the file before the first data frame: marker and header frame; 0 before they are whole.
   */
  uint64_t prologue_size;
  /*
   FileId: the first packet's time in nanoseconds since 1970; 0, with file_id_crc32, before there is one.
   */
  uint64_t file_id_ts_ns;
  /*
   FileId: CRC-32 of the global header and the first record header.
   */
  uint32_t file_id_crc32;
  /*
   Byte order and time unit; what follows is 0 without one.
   */
  pcapzst_magic magic;
  /*
   Nanoseconds of one step of a time stamp: 1000 or 1.
   */
  uint32_t ts_unit_ns;
  /*
   The link-type field, all 32 bits; the link type is the low 16.
   */
  uint32_t link_type;
  /*
   Snapshot length in bytes.
   */
  uint32_t snaplen;
  /*
   The pcap version.
   */
  uint16_t version_major;
  /*
   As version_major.
   */
  uint16_t version_minor;
  /*
   1 when its final name was seen, or it is in memory; 0 while it is being written. Tells of a damaged capture whether a
   restarted writer may yet mend it.
   */
  uint32_t is_final;
} pcapzst_info;

/*
 A packet. `data` belongs to the iterator, and is valid until the next call with it.
 */
typedef struct {
  /*
   Nanoseconds since 1970, whatever the capture's unit.
   */
  uint64_t ts_ns;
  /*
   Source offset of its record header.
   */
  uint64_t source_offset;
  /*
   The captured bytes; never NULL behind a call that gave a packet.
   */
  const uint8_t *data;
  /*
   How many were captured.
   */
  uint32_t captured_length;
  /*
   Length on the wire.
   */
  uint32_t original_length;
} pcapzst_packet;

/*
 How to write. All zeros, as NULL in its place, is the default.
 */
typedef struct {
  /*
   zstd's compression level; 0 for 2.
   */
  int32_t level;
  /*
   PCAPZST_WRITER_REPLACE or PCAPZST_WRITER_RESUME, not both; 0: nothing that is there is touched.
   */
  uint32_t flags;
  /*
   Source bytes that a frame aims at; 0 for 256 KiB.
   */
  uint64_t frame_target;
  /*
   A frame is ended when its first record has waited so many milliseconds; 0 for never. Looked at when records are added:
   between two calls nothing is written, so a caller with long silences flushes by himself.
   */
  uint32_t flush_ms;
} pcapzst_writer_options;

/*
 What was written so far.
 */
typedef struct {
  /*
   Source bytes in whole frames, those of an earlier writer included: where pcapzst_writer_write goes on.
   */
  uint64_t source_size;
  /*
   Bytes of the file.
   */
  uint64_t physical_size;
  /*
   Data frames.
   */
  uint64_t frames;
  /*
   Source bytes that no frame holds yet.
   */
  uint64_t pending_size;
  /*
   1 if the global header is written, else 0.
   */
  uint32_t has_header;
} pcapzst_written;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The PCAPZST_ABI_VERSION that the library was built with.
 */
uint32_t pcapzst_abi_version(void);

/*
 The newest version of the file format that this library reads and the one that it writes.
 */
uint32_t pcapzst_max_format_version(void);

/*
 Decodes `count` frames: number `indices[i]` into `dsts[i]`, which has room for `dst_sizes[i]` bytes. Buffers must not overlap.

 With `n_threads` threads, the caller's among them: 0 and 1 are his alone, a negative number is one for each processor, 256 are
 the most. They end before the call does. What comes of it never depends on their number: every slot is tried, one that
 fails is zeroed as far as the frame's source_size, and the status is the first one by slot.

 PCAPZST_E_RANGE and PCAPZST_E_INVALID are found before anything is written. `failed_slot` may be NULL; it receives the slot
 that the status is about, or PCAPZST_SLOT_NONE. A count of 0 succeeds.
 */
pcapzst_status pcapzst_decode_frames(const pcapzst_reader *reader,
                                     const uint64_t *indices,
                                     uint64_t count,
                                     void *const *dsts,
                                     const uint64_t *dst_sizes,
                                     int32_t n_threads,
                                     uint64_t *failed_slot);

/*
 Data frames known; 0 for NULL.
 */
uint64_t pcapzst_frame_count(const pcapzst_reader *reader);

/*
 Where frame number `index` is, counted from 0. PCAPZST_E_RANGE behind the last.
 */
pcapzst_status pcapzst_frame_info_at(const pcapzst_reader *reader,
                                     uint64_t index,
                                     pcapzst_frame_info *info);

/*
 Where `count` frames from number `first` on are, into `infos`, which has room for as many. PCAPZST_E_RANGE, and nothing
 written, if that runs past the last; a count of 0 succeeds.
 */
pcapzst_status pcapzst_frame_info_range(const pcapzst_reader *reader,
                                        uint64_t first,
                                        uint64_t count,
                                        pcapzst_frame_info *infos);

/*
 The number of the frame that holds source byte `offset`. PCAPZST_E_RANGE within the global header and behind the last frame.
 */
pcapzst_status pcapzst_find_frame(const pcapzst_reader *reader,
                                  uint64_t offset,
                                  uint64_t *index);

/*
 Decodes frame number `index` into `dst`, past the cache. PCAPZST_E_RANGE, and nothing written, if `dst_size` is less than the
 frame's source_size; on other failures what `dst` holds is not specified.
 */
pcapzst_status pcapzst_decode_frame(const pcapzst_reader *reader,
                                    uint64_t index,
                                    void *dst,
                                    uint64_t dst_size);

/*
 The bytes of frame number `index` as they are stored, for who sends them on: physical_size of them into `dst`. Behind the
 prologue they make a capture of this format again, of the same source; what could be skipped between frames is left out. The
 frame's headers are checked, its content is not.

 PCAPZST_E_RANGE as of pcapzst_decode_frame. PCAPZST_E_CHANGED when the file holds another frame there.
 */
pcapzst_status pcapzst_read_stored(const pcapzst_reader *reader,
                                   uint64_t index,
                                   void *dst,
                                   uint64_t dst_size);

/*
 The first prologue_size bytes of the file into `dst`: marker and header frame. PCAPZST_E_RANGE, and nothing written, when
 `dst_size` is less; PCAPZST_E_TORN before they are whole.
 */
pcapzst_status pcapzst_read_prologue(const pcapzst_reader *reader,
                                     void *dst,
                                     uint64_t dst_size);

/*
 What the last failed call of this thread was about: file, frame, physical offset, wanted and got, in English. Never NULL; empty
 before a call failed. Valid until the next failing call of this thread.
 */
const char *pcapzst_last_error(void);

/*
 Opens the capture at `path`, and walks what is there: a few bytes of each block are read.

 `path` may be either name of a capture that is being written: where there is no file `x.pcap.zst`, `x.pcap.zst.partial` is
 opened, and the other way round. A file whose last bytes are torn is no error: pcapzst_get_info says so.

 `options` may be NULL. `*out` is a reader to be closed with pcapzst_close, or NULL on failure. `format_version` may be NULL; it
 receives the version in the file's marker, also when that is refused (PCAPZST_E_VERSION), or 0 where there is none.

 PCAPZST_E_IO, _NOT_MARKED, _VERSION, _FORMAT (a broken marker or header frame; later faults are told when they are met), _ZSTD,
 _NOMEM, _INVALID.
 */
pcapzst_status pcapzst_open(const char *path,
                            const pcapzst_reader_options *options,
                            pcapzst_reader **out,
                            uint32_t *format_version);

/*
 As pcapzst_open, for an open file. The descriptor is duplicated: the caller's own stays his to close, and its position is
 neither used nor moved. Whether the capture is still being written is told by the path that the kernel knows the file by.

 Besides what pcapzst_open gives: PCAPZST_E_IO with EINVAL for what is no regular file.
 */
pcapzst_status pcapzst_open_fd(int fd,
                               const pcapzst_reader_options *options,
                               pcapzst_reader **out,
                               uint32_t *format_version);

/*
 As pcapzst_open, for a whole capture in memory: `size` bytes from `data` on. They are borrowed: they must stay as they are until
 the reader and every record iterator of it are closed, and stay the caller's. What is refused in a file is refused here.

 A size of 0, or NULL, is PCAPZST_E_INVALID.
 */
pcapzst_status pcapzst_open_memory(const void *data,
                                   uint64_t size,
                                   const pcapzst_reader_options *options,
                                   pcapzst_reader **out,
                                   uint32_t *format_version);

/*
 Closes a reader. NULL is fine. Not while another thread uses it; record iterators of it may stay open.
 */
void pcapzst_close(pcapzst_reader *reader);

/*
 What is known of the capture, without a look at its file.
 */
pcapzst_status pcapzst_get_info(const pcapzst_reader *reader, pcapzst_info *info);

/*
 Looks at the file: takes in the frames that are whole by now, and the rename that completes the capture. `state` may be
 NULL; it receives where the capture stands, on failure too.

 Reads only what was not walked before. Other threads may go on reading meanwhile.

 PCAPZST_E_CHANGED when another capture was written over the file: nothing of it is shown. PCAPZST_E_FORMAT and others, as of
 pcapzst_open, for a fault behind which nothing can be mapped; what is before it can still be read.
 */
pcapzst_status pcapzst_refresh(const pcapzst_reader *reader,
                               pcapzst_state *state);

/*
 Waits until the file has changed since the last wait, or `timeout_ms` milliseconds are over: the time to refresh. The first
 wait of a reader ends at once. One thread at a time.

 File systems over a network tell of no change that another machine makes: wait no longer than a second at a time there.

 PCAPZST_E_INVALID for a reader of memory, which never changes.
 */
pcapzst_status pcapzst_wait(const pcapzst_reader *reader,
                            uint32_t timeout_ms);

/*
 Source bytes from source offset `offset` on into `dst`: `size` of them, fewer only at the end of what is there or before a fault;
 how many, into `got`. 0 bytes and PCAPZST_OK are the end: refresh to see what came behind it. A fault at the very first byte is the
 status.

 Decodes the frames that the range touches, unless they are kept.
 */
pcapzst_status pcapzst_read(const pcapzst_reader *reader,
                            uint64_t offset,
                            void *dst,
                            uint64_t size,
                            uint64_t *got);

/*
 Opens an iterator that begins with the first packet of frame number `first_frame`; the number of frames stands for the
 packets that come from now on. `*out` is to be closed with pcapzst_records_close, or NULL on failure.
 */
pcapzst_status pcapzst_records_open(const pcapzst_reader *reader,
                                    uint64_t first_frame,
                                    pcapzst_records **out);

/*
 The next packet into `packet`, and what it was into `next`. Looks at the file when all that was known is given, so no refresh
 is needed.

 PCAPZST_E_TORN when the capture ends here for good, but not whole. PCAPZST_E_CHANGED when another capture was written over it.
 Damage is met where it is, when all packets before it were given, and again at every further call. On failure `packet` is all
 zeros, and `next` PCAPZST_NOT_YET.
 */
pcapzst_status pcapzst_records_next(pcapzst_records *records,
                                    pcapzst_packet *packet,
                                    pcapzst_next *next);

/*
 Closes an iterator. NULL is fine.
 */
void pcapzst_records_close(pcapzst_records *records);

/*
 What `status` means, in English; static, never NULL. Any number may be given.
 */
const char *pcapzst_status_message(int32_t status);

/*
 Begins to write the capture at `path`, which is to end in `.pcap.zst`: as `path.partial`, which readers may follow, until
 pcapzst_writer_finish gives it its name. `options` may be NULL. `*out` is NULL on failure.

 PCAPZST_E_EXISTS when a file is there, or a partial one that another writer left, and the flags do not say what to do with it.
 PCAPZST_E_BUSY, at once, while another writer has it; the kernel lets go of a killed writer's lock. PCAPZST_E_FORMAT and others
 for a partial file that is to be resumed and is none of a writer's. PCAPZST_E_INVALID, _RANGE, _IO, _NOMEM, _ZSTD.
 */
pcapzst_status pcapzst_writer_create(const char *path,
                                     const pcapzst_writer_options *options,
                                     pcapzst_writer **out);

/*
 Writes the global header for packets that are added one by one: little-endian, version 2.4, in nanoseconds if
 `is_nanoseconds` is not 0, else microseconds. In a resumed file it must say what the header there says, and is not
 written again.

 PCAPZST_E_EXISTS when there is another header already.
 */
pcapzst_status pcapzst_writer_header(pcapzst_writer *writer,
                                     uint32_t link_type,
                                     uint32_t snaplen,
                                     int32_t is_nanoseconds);

/*
 Adds a packet behind the header: `captured_length` bytes from `data` on.

 PCAPZST_E_INVALID before there is a header, and behind half a record that pcapzst_writer_write took. PCAPZST_E_LIMIT for more
 captured bytes than the header's snaplen, or 262144; PCAPZST_E_RANGE for a time that a pcap record cannot hold (2106 and
 later). Nothing is taken then. Behind PCAPZST_E_IO or _ZSTD the packet is kept, and written by the next call that can: it is not
 to be added again. Behind PCAPZST_E_NOMEM, and with 128 MiB pending, it is if source_size and pending_size together have
 grown.
 */
pcapzst_status pcapzst_writer_add(pcapzst_writer *writer,
                                  uint64_t ts_ns,
                                  const void *data,
                                  uint32_t captured_length,
                                  uint32_t original_length);

/*
 Takes the next bytes of a pcap file, in any pieces: in a new capture from its global header on, in a resumed one from source
 offset source_size on.

 PCAPZST_E_FORMAT for what is no pcap: whole records before it stay, and every further write fails and takes nothing. Behind
 PCAPZST_E_IO, _NOMEM or _ZSTD a part of `data` may have been taken: source_size and pending_size together are where to go on.
 */
pcapzst_status pcapzst_writer_write(pcapzst_writer *writer,
                                    const void *data,
                                    uint64_t size);

/*
 Ends the frame: every whole record so far can be read behind this call, and so can a header and frames that could not be
 written before. Not yet on disk: that is pcapzst_writer_finish's. Fails as pcapzst_writer_write does.
 */
pcapzst_status pcapzst_writer_flush(pcapzst_writer *writer);

/*
 What was written so far, into `written`.
 */
pcapzst_status pcapzst_writer_get_written(const pcapzst_writer *writer, pcapzst_written *written);

/*
 Completes the capture: flushes, brings it to the disk, and renames it to its final name. Then the writer is only good to
 be closed.

 PCAPZST_E_TORN, and nothing renamed, when bytes of half a record or header are pending. PCAPZST_E_CHANGED when the partial path no
 longer leads to the file that was written, PCAPZST_E_EXISTS when the final name has come to be taken: the file stays as it
 is, and finishing may be tried again. So it may be after PCAPZST_E_IO, which may come behind the final name, when the folder
 cannot be brought to the disk, or (NFS) the partial name not be removed: packets are PCAPZST_E_EXISTS then.
 */
pcapzst_status pcapzst_writer_finish(pcapzst_writer *writer);

/*
 Closes a writer. One that is not finished leaves its partial file, with every whole record that was added if those can be
 written: another writer may resume it. NULL is fine.
 */
void pcapzst_writer_close(pcapzst_writer *writer);

/*
 Closes a writer and removes its partial file, unless it is finished. NULL is fine. PCAPZST_E_CHANGED, and nothing removed, when
 the partial path leads to another file.
 */
pcapzst_status pcapzst_writer_abandon(pcapzst_writer *writer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PCAPZST_H */
