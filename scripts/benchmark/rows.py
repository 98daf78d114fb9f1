"""The rows: what is read, and how. Each is a function from a Bench to its rows of the table."""
import json, os, random, shutil, subprocess, time
from concurrent.futures import ThreadPoolExecutor

from .data import MIB, frames, made, quiet, run, skeleton, synthetic
from .ways import row

CACHE_SIZE_MIB = 256
JUMPS = 400


def shell(line):
    """A call that runs `line` and says nothing."""
    return lambda: quiet("bash", "-c", f"set -o pipefail; {line}") and None


def of_all(bench, line):
    return {way: shell(line.format(path)) for way, path in bench.ways.items()}


def sequential(bench):
    read = "dd if={} of=/dev/null bs=1M"
    columns = {"pcapzst": shell(read.format(bench.ways["pcapzst"])), "zstd -dc": shell(f"zstd -dc {bench.zst}")}
    columns |= of_all(bench, read)
    wanted = {"zstd -dc": 1.7, "squashfs": 1.5, "ratarmount": 1.9}
    return [bench.compare("dd bs=1M", columns, wanted=wanted)]


def passthrough(bench):
    read = "dd if={} of=/dev/null bs=1M"
    columns = {"raw file": shell(read.format(bench.raw)), "pcapzst, raw": shell(read.format(bench.mount / "raw.pcap"))}
    return [bench.compare("dd bs=1M of a final raw capture", columns, wanted={"pcapzst, raw": -1.1})]


def tcpdump(bench):
    found = []
    for name, read, wanted in [("tcpdump -r -w /dev/null", "tcpdump -r {} -w /dev/null", {"zstd -dc |": 1.4}), ("tcpdump -nr >/dev/null", "tcpdump -nr {}", {})]:
        columns = of_all(bench, read)
        columns["pcapzst, growing"] = shell(read.format(bench.mount / "growing.pcap"))
        columns["zstd -dc |"] = shell(f"zstd -dc {bench.zst} | " + read.format("-"))
        found.append(bench.compare(name, columns, wanted=wanted))
    return found


def wireshark(bench):
    lines = ["capinfos -c {}", "tshark -r {} -c 100000"]
    return [bench.compare(line.replace(" {}", ""), of_all(bench, line)) for line in lines]


def places(size, length):
    """Where the random readers read: the same places for each."""
    rng = random.Random(5)
    return [rng.randrange(size - length) for _ in range(JUMPS)]


def jump(path, length):
    """Seconds of each random read."""
    took = []
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for at in places(os.fstat(file.fileno()).st_size, length):
            began = time.perf_counter()
            os.pread(file.fileno(), length, at)
            took.append(time.perf_counter() - began)
    return took


def decode_in_process(bench, length):
    """The same reads by the library, in a process of its own: what decoding alone costs."""
    at = "\n".join(str(place) for place in places(bench.raw.stat().st_size, length))
    told = run(bench.options.example, bench.zst, length, input=at, text=True, stdout=subprocess.PIPE)
    return [float(nanos) / 1e9 for nanos in told.stdout.split()]


def jumps(bench):
    found = []
    for length in [4096, 65536]:
        takes = {"in process": lambda length=length: decode_in_process(bench, length)}
        takes |= {way: lambda path=path, length=length: jump(path, length) for way, path in bench.ways.items()}
        rounds = {name: {way: [] for way in takes} for name in ["p50", "p99"]}
        for _ in range(bench.options.rounds):
            for way, take in takes.items():
                bench.cool()
                took = sorted(take())
                rounds["p50"][way].append(took[len(took) // 2])
                rounds["p99"][way].append(took[len(took) * 99 // 100])
        for name, figures in rounds.items():
            wanted = {"pcapzst": -1.25} if (length, name) == (4096, "p50") else {}
            found.append(row(f"random {length >> 10} KiB, {name}", figures, wanted=wanted))
            if "ratarmount" in figures and wanted:
                pair = {way: figures[way] for way in ["pcapzst", "ratarmount"]}
                found.append(row("random 4 KiB, p50, beside ratarmount", pair, wanted={"ratarmount": 4}))
    return found


def together(paths):
    with ThreadPoolExecutor(len(paths)) as pool:
        list(pool.map(lambda path: quiet("dd", f"if={path}", "of=/dev/null", "bs=1M"), paths))


def status(bench):
    told = run(bench.pcapzst, "status", bench.mount, "--json", stdout=subprocess.PIPE)
    return json.loads(told.stdout)


def crowds(bench):
    eight = [bench.mount / f"file{number}.pcap" for number in range(8)]
    sixteen = [bench.ways["pcapzst"]] * 16
    one = [bench.ways["pcapzst"]]
    columns = {"pcapzst, 1 reader": lambda: together(one), "16 of one file": lambda: together(sixteen), "8 of 8 files": lambda: together(eight)}
    known = len(frames(bench.pcapzst, bench.zst))

    def decoded(paths):
        together(paths)
        return status(bench)["decodes"] / known

    counts = {"1 for each frame": lambda: 1.0, "1 reader": lambda: decoded(one), "16 of one file": lambda: decoded(sixteen)}
    return [
        bench.compare("readers at once", columns),
        bench.compare("frames decoded for each frame in the file", counts, unit="ratio", wanted={"16 of one file": -1.05}),
    ]


def fresh(bench):
    point = bench.folder("fresh")

    def after_mount(look):
        def call():
            began = time.perf_counter()
            run(bench.pcapzst, "mount", "-o", "no_index", bench.source, point)
            mounted = time.perf_counter()
            look()
            done = time.perf_counter()
            run(bench.pcapzst, "umount", point)
            return began, mounted, done

        return call

    def first_byte():
        with open(point / "final.pcap", "rb", buffering=0) as file:
            file.read(1)

    def size():
        began, mounted, done = after_mount(lambda: os.stat(point / "final.pcap"))()
        return done - mounted

    def byte():
        began, mounted, done = after_mount(first_byte)()
        return done - began

    columns = {"pcapzst, first size": size, "pcapzst, mount to byte": byte}
    wanted = {}
    if "ratarmount" in bench.ways:
        columns["ratarmount's index"] = lambda: bench.index_seconds
        wanted = {"ratarmount's index": 50}
    found = [bench.compare("first size (a walk), and mount, size and first byte", columns, wanted=wanted)]
    limit = {"25 ms for 1 GiB": [0.025 * bench.options.size / 1024], "pcapzst, first size": found[0]["rounds"]["pcapzst, first size"]}
    return [*found, row("first size against its limit", limit, wanted={"pcapzst, first size": -1})]


def listing(bench):
    folder, point, index = bench.folder("thousand"), bench.folder("listed"), bench.folder("index")
    one = bench.work / "one.pcap.zst"
    quiet(bench.pcapzst, "pack", made(synthetic, bench.options.listed_size * MIB), "-o", one)
    skeleton(bench.pcapzst, one, folder / "0.pcap.zst")
    for number in range(1, bench.options.listed):
        quiet("cp", "--sparse=always", folder / "0.pcap.zst", folder / f"{number}.pcap.zst")
    # Or the disk is still busy with them.
    os.sync()
    took = {"after a remount": [], "again": [], "first": []}
    for _ in range(bench.options.rounds):
        shutil.rmtree(index)
        index.mkdir()
        for turns in [["first", "again"], ["after a remount"]]:
            run(bench.pcapzst, "mount", "-o", f"index_dir={index}", folder, point)
            for turn in turns:
                began = time.perf_counter()
                quiet("ls", "-l", point)
                took[turn].append(time.perf_counter() - began)
            run(bench.pcapzst, "umount", point)
    return [row(f"ls -l of {bench.options.listed} x {bench.options.listed_size} MiB", took, wanted={"first": 10})]


def tail(bench):
    """From the write of a frame until a reader of the growing capture has its last byte."""
    ends = [frame["phys_start"] + frame["phys_len"] for frame in frames(bench.pcapzst, bench.zst)][: JUMPS + 1]
    data = bench.zst.read_bytes()[: ends[-1]]

    def appended(physical, seen):
        took = []
        with open(physical, "wb", buffering=0) as writer:
            writer.write(data[: ends[0]])
            with open(seen, "rb", buffering=0) as reader:
                for start, end in zip(ends, ends[1:]):
                    size = os.fstat(reader.fileno()).st_size
                    began = time.perf_counter()
                    writer.write(data[start:end])
                    while (now := os.fstat(reader.fileno()).st_size) == size:
                        pass
                    os.pread(reader.fileno(), 1, now - 1)
                    took.append(time.perf_counter() - began)
        physical.unlink()
        return sorted(took)

    rounds = {name: {"plain file": [], "pcapzst": []} for name in ["p50", "p99"]}
    for _ in range(bench.options.rounds):
        plain, tailed = bench.work / "tailed", bench.source / "tailed.pcap.zst.partial"
        for way, paths in {"plain file": (plain, plain), "pcapzst": (tailed, bench.mount / "tailed.pcap")}.items():
            took = appended(*paths)
            rounds["p50"][way].append(took[len(took) // 2])
            rounds["p99"][way].append(took[len(took) * 99 // 100])
    return [row(f"write of a frame to read of its last byte, {name}", figures) for name, figures in rounds.items()]


def library(bench):
    """The C library beside a straight loop over libzstd, on the same file, in a process of its own each time."""
    if not os.path.exists("/usr/include/zstd.h"):
        quiet("apt-get", "install", "-y", "--no-install-recommends", "libzstd-dev")
    prefix, program = bench.work / "c", bench.work / "library"
    source = bench.options.repo / "scripts/benchmark/library.c"
    quiet(bench.options.repo / "scripts/install-c", prefix)
    quiet("cc", "-std=c99", "-O2", "-o", program, source, f"-I{prefix}/include", f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lpcapzst", "-lzstd")

    def seconds(*words):
        return lambda: float(run(program, *words, bench.zst, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)

    alone = {"pcapzst_decode_frame": seconds("frames"), "loop over libzstd": seconds("loop")}
    batch = {"2 threads": seconds("batch", 2), "1 thread": seconds("batch", 1)}
    return [
        bench.compare("C library: a capture walked and decoded", alone, wanted={"loop over libzstd": 1}),
        bench.compare("C library: pcapzst_decode_frames", batch, wanted={"1 thread": 1.7}),
    ]


def memory(bench):
    bench.remount()
    rounds = {"cache_size + 64 MiB": [CACHE_SIZE_MIB + 64], "pcapzst": [bench.peak]}
    return [row("peak RSS of the daemon in all rows", rounds, "MiB", {"pcapzst": -1})]


ALL = {
    "sequential": sequential,
    "passthrough": passthrough,
    "tcpdump": tcpdump,
    "wireshark": wireshark,
    "random": jumps,
    "crowds": crowds,
    "fresh": fresh,
    "listing": listing,
    "tail": tail,
    "library": library,
    "memory": memory,
}
