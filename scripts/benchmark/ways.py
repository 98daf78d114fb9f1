"""The ways to read one capture: the raw file, this mount, a pipe, and each peer. What cannot be had is named."""
import os, shutil, statistics, subprocess, sys, time

from .data import CACHE, MIB, START, made, note, quiet, run


def peak_mib(mount):
    """Peak resident memory, in MiB, of the daemon behind a mount."""
    pids = subprocess.run(["pgrep", "-f", f"pcapzst mount .*{mount}$"], capture_output=True, text=True, check=True)
    with open(f"/proc/{pids.stdout.split()[0]}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def ensure(command, package):
    if not shutil.which(command):
        quiet("apt-get", "install", "-y", "--no-install-recommends", package)


class Bench:
    """Everything that is mounted, and how to read one capture by each way."""

    def __init__(self, pcapzst, work, options):
        self.pcapzst, self.work, self.options = pcapzst, work, options
        self.undo, self.missing, self.peak = [], {}, 0.0
        self.raw = made(options.make, options.size * MIB)
        self.source, self.mount = self.folder("source"), self.folder("mnt")
        self.zst = self.source / "final.pcap.zst"
        note("packing")
        quiet(pcapzst, "pack", self.raw, "-o", self.zst)
        os.link(self.zst, self.source / "growing.pcap.zst.partial")
        shutil.copy2(self.raw, self.source / "raw.pcap")
        # Passed through once it has rested: as a capture that was not made this moment.
        os.utime(self.source / "raw.pcap", (START, START))
        for number in range(8):
            os.link(self.zst, self.source / f"file{number}.pcap.zst")
        self.remount()
        self.undo.append([pcapzst, "umount", self.mount])
        self.ways = {"pcapzst": self.mount / "final.pcap", "raw file": self.raw}
        self.peer("squashfs", self.squashfs)
        self.peer("squashfuse_ll", self.squashfuse)
        self.peer("ratarmount", self.ratarmount)

    def folder(self, name):
        path = self.work / name
        path.mkdir()
        return path

    def remount(self):
        """Mounts anew, so that nothing is decoded: neither by the daemon nor in the kernel."""
        if os.path.ismount(self.mount):
            self.peak = max(self.peak, peak_mib(self.mount))
            run(self.pcapzst, "umount", self.mount)
        run(self.pcapzst, "mount", "-o", "no_index", self.source, self.mount)

    def peer(self, name, mount):
        if self.options.no_peers:
            self.missing[name] = "left out by --no-peers"
            return
        try:
            self.ways[name] = mount()
        except (OSError, subprocess.SubprocessError, StopIteration) as error:
            self.missing[name] = str(error)

    def squashfs(self):
        image = self.work / "image.sqfs"
        ensure("mksquashfs", "squashfs-tools")
        inside = self.folder("inside")
        os.link(self.source / "raw.pcap", inside / "final.pcap")
        note("mksquashfs")
        quiet("mksquashfs", inside, image, "-comp", "zstd", "-b", "256K", "-no-progress")
        point = self.folder("squashfs")
        run("mount", "-t", "squashfs", "-o", "loop,ro", image, point, stderr=subprocess.DEVNULL)
        self.undo.append(["umount", point])
        return point / "final.pcap"

    def squashfuse(self):
        ensure("squashfuse_ll", "squashfuse")
        point = self.folder("squashfuse")
        run("squashfuse_ll", self.work / "image.sqfs", point)
        self.undo.append(["umount", point])
        return point / "final.pcap"

    def ratarmount(self):
        venv = CACHE / "ratarmount"
        if not (venv / "bin/ratarmount").exists():
            note("installing ratarmount")
            ensure("python3", "python3-venv")
            quiet(sys.executable, "-m", "venv", venv)
            quiet(venv / "bin/pip", "install", "-q", "ratarmount")
        point = self.folder("ratarmount")
        began = time.perf_counter()
        quiet(venv / "bin/ratarmount", "--index-file", self.work / "ratarmount.sqlite", self.zst, point)
        self.index_seconds = time.perf_counter() - began
        self.undo.append(["umount", point])
        return next(path for path in point.rglob("*") if path.is_file())

    def close(self):
        if os.path.ismount(self.mount):
            self.peak = max(self.peak, peak_mib(self.mount))
        for command in reversed(self.undo):
            subprocess.run([str(word) for word in command], stderr=subprocess.DEVNULL)

    def cool(self):
        """Every mount cold, and the files behind the mounts warm."""
        self.remount()
        for path in self.ways.values():
            if path != self.raw:
                with open(path, "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for path in [self.raw, self.source / "raw.pcap", self.zst, self.work / "image.sqfs"]:
            if path.exists():
                quiet("cat", path)

    def compare(self, name, columns, unit="s", wanted=None):
        """The row of this name: each column's call, timed in turn. A call may return a figure of its own."""
        rounds = {column: [] for column in columns}
        for _ in range(self.options.rounds):
            for column, call in columns.items():
                self.cool()
                began = time.perf_counter()
                figure = call()
                rounds[column].append(time.perf_counter() - began if figure is None else figure)
        return row(name, rounds, unit, wanted)


def row(name, rounds, unit="s", wanted=None):
    """A row of the table. `wanted`: column to the least ratio of its median to the first column's, or (negative) the most."""
    medians = {column: statistics.median(figures) for column, figures in rounds.items()}
    return {"row": name, "unit": unit, "rounds": rounds, "medians": medians, "wanted": wanted or {}}
