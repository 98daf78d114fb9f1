"""What is timed: captures that are the same in every run, made once and kept in the user's cache folder."""
import json, os, random, struct, subprocess, sys, tarfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "pcapzst-bench"
HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
START = 1784037600
MIB = 1 << 20
PAGE = 4096


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def quiet(*command):
    return run(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def note(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def synthetic(path, size):
    """A capture of about 1.5:1: some packets are noise, the others text."""
    rng = random.Random(2026)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    words = [bytes(rng.choices(letters, k=rng.randint(3, 9))) for _ in range(2000)]
    texts = [b" ".join(rng.choices(words, k=300)) for _ in range(400)]
    micros = 0
    with open(path, "wb") as out:
        out.write(HEADER)
        while out.tell() < size:
            pieces = []
            for _ in range(min(4000, size // 700)):
                length = rng.randint(60, 1400)
                micros += rng.randint(1, 500)
                if rng.random() < 0.42:
                    payload = rng.randbytes(length)
                else:
                    text = rng.choice(texts)
                    start = rng.randrange(max(1, len(text) - length))
                    payload = text[start : start + length]
                ip = b"E\0" + struct.pack(">H", 20 + len(payload)) + b"\0\0\0\0\x40\xfd\0\0" + b"\x0a\0\0\1\x0a\0\0\2"
                packet = b"\2\0\0\0\0\2\2\0\0\0\0\1\x08\0" + ip + payload
                stamp = struct.pack("<II", START + micros // 10**6, micros % 10**6)
                pieces.append(stamp + struct.pack("<II", len(packet), len(packet)) + packet)
            out.write(b"".join(pieces))


def ethernet(data):
    """The packets of a classic pcap file of Ethernet frames: (length on the wire, bytes); none of any other file."""
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">"}.get(data[:4])
    if order is None or len(data) < 24 or struct.unpack_from(order + "I", data, 20)[0] != 1:
        return
    at = 24
    while at + 16 <= len(data):
        kept, whole = struct.unpack_from(order + "II", data, at + 8)
        if kept > 65535 or at + 16 + kept > len(data):
            return
        yield whole, data[at + 16 : at + 16 + kept]
        at += 16 + kept


def real(path, size):
    """The Ethernet packets of tcpdump's own test captures, again and again with later time stamps."""
    archive = next((CACHE.parent / "pcapzst-tests/tcpdump-source").glob("tcpdump_*.orig.tar.*"), None)
    if archive is None:
        sys.exit("bench: no captures: run scripts/tcpdump-suite first, which fetches them")
    with tarfile.open(archive) as tar:
        files = sorted((file for file in tar if file.name.endswith(".pcap")), key=lambda file: file.name)
        records = [record for file in files for record in ethernet(tar.extractfile(file).read())]
    micros = 0
    with open(path, "wb") as out:
        out.write(HEADER)
        while out.tell() < size:
            for whole, packet in records:
                micros += 37
                stamp = struct.pack("<II", START + micros // 10**6, micros % 10**6)
                out.write(stamp + struct.pack("<II", len(packet), whole) + packet)


def made(make, size):
    """The capture that `make` makes, of at least `size` bytes; made once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f"{make.__name__}-{size}.pcap"
    if not path.exists():
        note(f"making {path.name}")
        partial = path.with_suffix(".new")
        make(partial, size)
        partial.rename(path)
    return path


def frames(pcapzst, path):
    """The data frames of a compressed capture, as `inspect` tells them."""
    told = run(pcapzst, "inspect", "--json", "--frames", path, stdout=subprocess.PIPE)
    return json.loads(told.stdout)["frame_table"]


def skeleton(pcapzst, path, out):
    """A sparse copy of a compressed capture: every page that a walk or a look at the start reads is there, and no other.

    So a thousand captures of full length need no thousand times their space, and a walk over one costs what it costs.
    """
    data = path.read_bytes()
    pages = set(range(0, 64))

    def keep(start, length):
        pages.update(range(start // PAGE, (start + length - 1) // PAGE + 1))

    for frame in frames(pcapzst, path):
        descriptor = data[frame["phys_start"] + 4]
        single, size_flag = descriptor >> 5 & 1, descriptor >> 6
        at = frame["phys_start"] + 5 + (0 if single else 1) + [single, 2, 4, 8][size_flag]
        keep(frame["phys_start"], 512)
        is_last = False
        while not is_last:
            keep(at, 512)
            header = int.from_bytes(data[at : at + 3], "little")
            is_last, is_rle = header & 1, header >> 1 & 3 == 1
            at += 3 + (1 if is_rle else header >> 3)
    with open(out, "wb") as file:
        file.truncate(len(data))
        for page in sorted(pages):
            file.seek(page * PAGE)
            file.write(data[page * PAGE : (page + 1) * PAGE])
        file.truncate(len(data))
