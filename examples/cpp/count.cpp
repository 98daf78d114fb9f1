// Counts the packets and captured bytes of captures, as they are now:
//
//     count CAPTURE...
//
// Decodes all frames by all processors, in chunks of bounded memory, then counts once more with the record iterator. Two
// counts that differ are an error.
#include <cstdio>
#include <string>
#include <vector>

#include "pcapzst.hpp"

namespace {

// Source bytes that are decoded at a time; a larger frame is a chunk of its own.
const uint64_t CHUNK = 16 * 1024 * 1024;

struct counts {
    uint64_t packets, bytes;
};

uint32_t captured_length(const unsigned char *record, pcapzst_magic magic) {
    const unsigned char *at = record + 8;
    const bool is_little = magic == PCAPZST_LE_US || magic == PCAPZST_LE_NS;
    uint32_t length = 0;
    for (int i = 0; i < 4; i++) length |= static_cast<uint32_t>(at[i]) << 8 * (is_little ? i : 3 - i);
    return length;
}

counts count_frames(const pcapzst::reader &reader, const pcapzst_info &info) {
    counts found = {0, 0};
    const auto frames = reader.frames(0, info.frames);
    std::vector<unsigned char> memory;
    for (std::size_t first = 0; first < frames.size();) {
        std::vector<uint64_t> indices, sizes;
        uint64_t total = 0;
        for (std::size_t i = first; i < frames.size() && (i == first || total + frames[i].source_size <= CHUNK); i++) {
            indices.push_back(i);
            sizes.push_back(frames[i].source_size);
            total += frames[i].source_size;
        }
        memory.resize(static_cast<std::size_t>(total));
        std::vector<void *> places;
        unsigned char *place = memory.data();
        for (const uint64_t size : sizes) places.push_back(place), place += size;
        pcapzst::check(pcapzst_decode_frames(reader.get(), indices.data(), indices.size(), places.data(), sizes.data(),
                                             PCAPZST_THREADS_AUTO, nullptr));
        // A frame holds whole records, so chunks do too.
        for (std::size_t at = 0; at + 16 <= memory.size(); found.packets++) {
            const uint32_t length = captured_length(&memory[at], info.magic);
            found.bytes += length;
            at += std::size_t(16) + length;
        }
        first += indices.size();
    }
    return found;
}

counts count_records(const pcapzst::reader &reader, uint64_t source_size) {
    counts found = {0, 0};
    pcapzst::records records(reader);
    pcapzst_packet packet;
    // The iterator sees what has come meanwhile; the frames above were those of one look.
    while (records.next(packet) == PCAPZST_PACKET && packet.source_offset < source_size) {
        found.packets++;
        found.bytes += packet.captured_length;
    }
    return found;
}

} // namespace

int main(int argc, char **argv) {
    if (pcapzst_abi_version() != PCAPZST_ABI_VERSION) return std::fputs("count: another ABI of libpcapzst\n", stderr), 1;
    int code = 0;
    for (int i = 1; i < argc; i++) {
        try {
            const pcapzst::reader reader(argv[i]);
            const pcapzst_info info = reader.info();
            const counts all = count_frames(reader, info), again = count_records(reader, info.source_size);
            if (all.packets != again.packets || all.bytes != again.bytes)
                throw std::runtime_error(std::string(argv[i]) + ": the two counts differ");
            std::printf("%s: %llu packets, %llu bytes\n", argv[i], static_cast<unsigned long long>(all.packets),
                        static_cast<unsigned long long>(all.bytes));
        } catch (const std::exception &failure) {
            std::fprintf(stderr, "count: %s\n", failure.what());
            code = 1;
        }
    }
    return code;
}
