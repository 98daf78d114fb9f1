//! Synthetic captures: real Ethernet, IPv4 and UDP headers round payloads of the test's choice.

use std::ops::Range;

use super::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Magic {
    LeUs,
    BeUs,
    LeNs,
    BeNs,
}

impl Magic {
    pub const ALL: [Self; 4] = [Self::LeUs, Self::BeUs, Self::LeNs, Self::BeNs];

    fn is_big_endian(self) -> bool {
        matches!(self, Self::BeUs | Self::BeNs)
    }

    pub fn is_nano(self) -> bool {
        matches!(self, Self::LeNs | Self::BeNs)
    }

    /// As `inspect --json` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LeUs => "le-us",
            Self::BeUs => "be-us",
            Self::LeNs => "le-ns",
            Self::BeNs => "be-ns",
        }
    }

    pub fn u32(self, value: u32) -> [u8; 4] {
        if self.is_big_endian() {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    pub fn u16(self, value: u16) -> [u8; 2] {
        if self.is_big_endian() {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }
}

/// A capture in memory and where its records end.
#[derive(Clone)]
pub struct Pcap {
    pub magic: Magic,
    minor: u16,
    pub bytes: Vec<u8>,
    /// `ends[0]` is the end of the header (24); `ends[n]` the end of record n, counted from 1.
    pub ends: Vec<usize>,
}

impl Pcap {
    /// Version 2.4, snapshot length 262144, Ethernet.
    pub fn new(magic: Magic) -> Self {
        Self::with(magic, 4, 262_144, 1)
    }

    pub fn with(magic: Magic, minor: u16, snaplen: u32, link_type: u32) -> Self {
        let mut bytes = Vec::new();
        bytes.extend(magic.u32(if magic.is_nano() {
            0xA1B2_3C4D
        } else {
            0xA1B2_C3D4
        }));
        bytes.extend(magic.u16(2));
        bytes.extend(magic.u16(minor));
        bytes.extend([0; 8]);
        bytes.extend(magic.u32(snaplen));
        bytes.extend(magic.u32(link_type));
        Self {
            magic,
            minor,
            bytes,
            ends: vec![24],
        }
    }

    /// Appends a record: `orig_len` is the packet's length on the wire, `data` what was captured of it.
    pub fn push(&mut self, secs: u32, fraction: u32, orig_len: u32, data: &[u8]) {
        let incl_len = u32::try_from(data.len()).unwrap();
        self.bytes.extend(self.magic.u32(secs));
        self.bytes.extend(self.magic.u32(fraction));
        // Before version 2.3 the two lengths stand the other way round (libpcap, sf-pcap.c: lengths_swapped).
        let lengths = if self.minor < 3 {
            [orig_len, incl_len]
        } else {
            [incl_len, orig_len]
        };
        for length in lengths {
            self.bytes.extend(self.magic.u32(length));
        }
        self.bytes.extend_from_slice(data);
        self.ends.push(self.bytes.len());
    }

    /// Appends a UDP packet round this payload; every ninth is cut to 60 bytes, as a small snapshot length would.
    pub fn push_udp(&mut self, payload: &[u8]) {
        let number = u32::try_from(self.ends.len()).unwrap();
        let packet = udp(number, payload);
        let kept = if number.is_multiple_of(9) {
            packet.len().min(60)
        } else {
            packet.len()
        };
        let fraction = if self.magic.is_nano() {
            number % 1_000_000 * 1001
        } else {
            number % 1_000_000
        };
        self.push(
            1_700_000_000 + number / 50,
            fraction,
            u32::try_from(packet.len()).unwrap(),
            &packet[..kept],
        );
    }

    /// `records` packets of random lengths; half of each payload is random, half repeats.
    pub fn random(magic: Magic, seed: u64, records: usize) -> Self {
        let mut pcap = Self::new(magic);
        pcap.extend_random(&mut Rng::new(seed), records);
        pcap
    }

    /// At least `size` bytes of random packets.
    pub fn of_size(magic: Magic, seed: u64, size: usize) -> Self {
        let mut pcap = Self::new(magic);
        let mut rng = Rng::new(seed);
        while pcap.bytes.len() < size {
            pcap.extend_random(&mut rng, 16);
        }
        pcap
    }

    pub fn extend_random(&mut self, rng: &mut Rng, records: usize) {
        for _ in 0..records {
            let len = rng.below(1400);
            let mut payload = rng.bytes(len / 2);
            payload.resize(len, b'=');
            self.push_udp(&payload);
        }
    }

    /// Packets of ASCII lines; every third holds the word `needle` on a line of its own.
    pub fn text(seed: u64, records: usize) -> Self {
        let mut pcap = Self::new(Magic::LeUs);
        let mut rng = Rng::new(seed);
        for number in 0..records {
            let word = if number.is_multiple_of(3) {
                "needle"
            } else {
                "straw"
            };
            let mut text = format!("\n{word} {number}\n");
            for _ in 0..rng.below(12) {
                text += "GET /index.html HTTP/1.1 Host: example.net\n";
            }
            pcap.push_udp(text.as_bytes());
        }
        pcap
    }

    /// Packets whose payloads are all zero: what a sparse copy may turn into holes.
    pub fn zeros(records: usize) -> Self {
        let mut pcap = Self::new(Magic::LeUs);
        for _ in 0..records {
            let packet = udp(1, &vec![0; 60_000]);
            pcap.push(
                1_700_000_000,
                0,
                u32::try_from(packet.len()).unwrap(),
                &packet,
            );
        }
        pcap
    }

    pub fn header(&self) -> &[u8] {
        &self.bytes[..24]
    }

    /// Number of records.
    pub fn records(&self) -> usize {
        self.ends.len() - 1
    }

    /// Ranges of whole records that together are the body, each of at least `target` bytes but for the last.
    pub fn chunks(&self, target: usize) -> Vec<Range<usize>> {
        let mut chunks = Vec::new();
        let mut start = 24;
        for &end in &self.ends[1..] {
            if end - start >= target {
                chunks.push(start..end);
                start = end;
            }
        }
        if start < self.bytes.len() {
            chunks.push(start..self.bytes.len());
        }
        chunks
    }
}

/// An Ethernet frame with an IPv4 packet (right checksum) with a UDP datagram (no checksum).
fn udp(number: u32, payload: &[u8]) -> Vec<u8> {
    let udp_len = u16::try_from(8 + payload.len()).unwrap();
    let mut packet = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut ip = vec![0x45, 0];
    ip.extend((20 + udp_len).to_be_bytes());
    ip.extend(number.to_be_bytes()[2..].iter());
    ip.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum: u32 = ip
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let checksum = !u16::try_from((folded & 0xFFFF) + (folded >> 16)).unwrap();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend(ip);
    packet.extend(40_001_u16.to_be_bytes());
    packet.extend(40_002_u16.to_be_bytes());
    packet.extend(udp_len.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend_from_slice(payload);
    packet
}
