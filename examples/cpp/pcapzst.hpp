// libpcapzst for C++11: readers and record iterators that close themselves, and statuses as exceptions.
#ifndef PCAPZST_HPP
#define PCAPZST_HPP

#include <memory>
#include <stdexcept>
#include <vector>

#include "pcapzst.h"

namespace pcapzst {

// What a call failed with: the status, and the words of pcapzst_last_error() in what().
class error : public std::runtime_error {
public:
    explicit error(pcapzst_status status) : std::runtime_error(pcapzst_last_error()), status_(status) {}
    pcapzst_status status() const noexcept { return status_; }

private:
    pcapzst_status status_;
};

inline void check(pcapzst_status status) {
    if (status != PCAPZST_OK) throw error(status);
}

// A capture, open for reading. const members may be called by any number of threads at once.
class reader {
public:
    explicit reader(const char *path, const pcapzst_reader_options *options = nullptr) {
        pcapzst_reader *opened;
        check(pcapzst_open(path, options, &opened, nullptr));
        handle_.reset(opened);
    }
    pcapzst_info info() const {
        pcapzst_info info;
        check(pcapzst_get_info(get(), &info));
        return info;
    }
    pcapzst_state refresh() const {
        pcapzst_state state;
        check(pcapzst_refresh(get(), &state));
        return state;
    }
    void wait(uint32_t timeout_ms) const { check(pcapzst_wait(get(), timeout_ms)); }
    std::vector<pcapzst_frame_info> frames(uint64_t first, uint64_t count) const {
        std::vector<pcapzst_frame_info> found(static_cast<std::size_t>(count));
        check(pcapzst_frame_info_range(get(), first, count, found.data()));
        return found;
    }
    const pcapzst_reader *get() const noexcept { return handle_.get(); }

private:
    struct closing {
        void operator()(pcapzst_reader *open) const noexcept { pcapzst_close(open); }
    };
    std::unique_ptr<pcapzst_reader, closing> handle_;
};

// The packets of a capture. One thread at a time; a packet's data is valid until the next call.
class records {
public:
    explicit records(const reader &of, uint64_t first_frame = 0) {
        pcapzst_records *opened;
        check(pcapzst_records_open(of.get(), first_frame, &opened));
        handle_.reset(opened);
    }
    pcapzst_next next(pcapzst_packet &packet) {
        pcapzst_next next;
        check(pcapzst_records_next(handle_.get(), &packet, &next));
        return next;
    }

private:
    struct closing {
        void operator()(pcapzst_records *open) const noexcept { pcapzst_records_close(open); }
    };
    std::unique_ptr<pcapzst_records, closing> handle_;
};

} // namespace pcapzst

#endif
