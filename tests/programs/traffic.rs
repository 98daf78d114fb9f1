//! A capture of real protocols: HTTP over TCP, DNS over UDP, and datagrams in fragments, all with right checksums.

use crate::common::Rng;
use crate::common::pcap::{Magic, Pcap};

const CLIENT: [u8; 4] = [10, 1, 0, 9];
const SERVER: [u8; 4] = [192, 0, 2, 80];
/// In the body of every page.
pub const WORD: &str = "needle-in-a-page";
/// TCP connections, each of which fetches one page.
pub const FLOWS: u16 = 40;
/// Questions, each with its answer.
pub const QUESTIONS: u16 = 60;
/// Datagrams of three fragments each.
pub const FRAGMENTED: u16 = 20;

const FIN: u8 = 1;
const SYN: u8 = 2;
const PUSH: u8 = 8;
const ACK: u8 = 16;

/// All of it, in the order of the time stamps.
pub fn capture() -> Pcap {
    let mut rng = Rng::new(60);
    let mut packets = Vec::new();
    for number in 0..FLOWS {
        let start = u32::from(number) * 700;
        let flow = page(number, &mut rng);
        packets.extend((start..).step_by(90).zip(flow));
    }
    for number in 0..QUESTIONS {
        let start = u32::from(number) * 410;
        packets.extend((start..).step_by(333).zip(question(number)));
    }
    for number in 0..FRAGMENTED {
        let start = u32::from(number) * 990;
        packets.extend((start..).step_by(5).zip(datagram(number, &mut rng)));
    }
    packets.sort_by_key(|(time, _)| *time);
    let mut pcap = Pcap::new(Magic::LeUs);
    for (time, packet) in packets {
        let len = u32::try_from(packet.len()).unwrap();
        pcap.push(
            1_784_037_600 + time / 1000,
            time % 1000 * 1000,
            len,
            &packet,
        );
    }
    pcap
}

/// A connection from its first packet to its last. In every third two segments change places, in every fifth one comes
/// twice.
fn page(number: u16, rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut up = End::new(CLIENT, 40_000 + number, 1000 + u32::from(number));
    let mut down = End::new(SERVER, 80, 900_000 + u32::from(number));
    let mut packets = vec![up.send(&down, SYN, b"")];
    down.seen = up.next;
    packets.push(down.send(&up, SYN | ACK, b""));
    up.seen = down.next;
    packets.push(up.send(&down, ACK, b""));
    let get = format!("GET /page-{number}.txt HTTP/1.1\r\nHost: www.example\r\n\r\n");
    packets.push(up.send(&down, PUSH | ACK, get.as_bytes()));
    down.seen = up.next;
    let lines = (0..180).map(|_| format!("{:016x}\n", rng.next()));
    let body = format!("page {number} with a {WORD}\n{}", lines.collect::<String>());
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let first = packets.len();
    for segment in answer.as_bytes().chunks(1100) {
        packets.push(down.send(&up, PUSH | ACK, segment));
    }
    if number.is_multiple_of(3) {
        packets.swap(first + 1, first + 2);
    }
    if number.is_multiple_of(5) {
        packets.insert(first + 2, packets[first].clone());
    }
    up.seen = down.next;
    packets.push(up.send(&down, FIN | ACK, b""));
    down.seen = up.next;
    packets.push(down.send(&up, FIN | ACK, b""));
    up.seen = down.next;
    packets.push(up.send(&down, ACK, b""));
    packets
}

/// One end of a connection.
struct End {
    address: [u8; 4],
    port: u16,
    next: u32,
    seen: u32,
    sent: u16,
}

impl End {
    fn new(address: [u8; 4], port: u16, next: u32) -> Self {
        Self {
            address,
            port,
            next,
            seen: 0,
            sent: 0,
        }
    }

    fn send(&mut self, to: &Self, flags: u8, data: &[u8]) -> Vec<u8> {
        // Maximum segment size, no operation, window scale: what a first packet carries.
        let options: &[u8] = if flags & SYN == 0 {
            &[]
        } else {
            &[2, 4, 5, 0xB4, 1, 3, 3, 7]
        };
        let mut tcp = Vec::new();
        tcp.extend(self.port.to_be_bytes());
        tcp.extend(to.port.to_be_bytes());
        tcp.extend(self.next.to_be_bytes());
        tcp.extend(self.seen.to_be_bytes());
        let words = u8::try_from(5 + options.len() / 4).unwrap();
        tcp.extend([words << 4, flags, 0xFA, 0xF0, 0, 0, 0, 0]);
        tcp.extend(options);
        tcp.extend(data);
        seal(&mut tcp, 16, 6, self.address, to.address);
        let one_more = u32::from(flags & (SYN | FIN) != 0);
        self.next += u32::try_from(data.len()).unwrap() + one_more;
        self.sent += 1;
        ipv4(6, self.sent, 0x4000, self.address, to.address, &tcp)
    }
}

/// A question for an address and the answer to it.
fn question(number: u16) -> [Vec<u8>; 2] {
    let mut name = Vec::new();
    for label in [&format!("host-{number}"), "example"] {
        name.push(u8::try_from(label.len()).unwrap());
        name.extend(label.as_bytes());
    }
    name.extend([0, 0, 1, 0, 1]); // A, IN
    let mut ask = number.to_be_bytes().to_vec();
    ask.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    ask.extend(&name);
    let mut answer = number.to_be_bytes().to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    answer.extend(&name);
    answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4, 198, 51, 100]);
    answer.push(number.to_be_bytes()[1]);
    let resolver = [10, 1, 0, 53];
    let port = 50_000 + number;
    [
        ipv4(
            17,
            number,
            0,
            CLIENT,
            resolver,
            &udp(port, 53, CLIENT, resolver, &ask),
        ),
        ipv4(
            17,
            number,
            0,
            resolver,
            CLIENT,
            &udp(53, port, resolver, CLIENT, &answer),
        ),
    ]
}

/// A datagram that is too long for one packet; of every fourth the last fragment comes first.
fn datagram(number: u16, rng: &mut Rng) -> Vec<Vec<u8>> {
    let whole = udp(5001, 5002, CLIENT, SERVER, &rng.bytes(4000));
    let count = whole.chunks(1480).count();
    let mut packets: Vec<_> = whole
        .chunks(1480)
        .enumerate()
        .map(|(place, part)| {
            let more = if place + 1 < count { 0x2000 } else { 0 };
            let offset = u16::try_from(place * 1480 / 8).unwrap();
            ipv4(17, 7000 + number, more | offset, CLIENT, SERVER, part)
        })
        .collect();
    if number.is_multiple_of(4) {
        packets.rotate_right(1);
    }
    packets
}

fn udp(from_port: u16, to_port: u16, from: [u8; 4], to: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut udp = from_port.to_be_bytes().to_vec();
    udp.extend(to_port.to_be_bytes());
    udp.extend(u16::try_from(8 + data.len()).unwrap().to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(data);
    seal(&mut udp, 6, 17, from, to);
    udp
}

/// An Ethernet frame round an IPv4 packet.
fn ipv4(protocol: u8, id: u16, fragment: u16, from: [u8; 4], to: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0];
    ip.extend(u16::try_from(20 + data.len()).unwrap().to_be_bytes());
    ip.extend(id.to_be_bytes());
    ip.extend(fragment.to_be_bytes());
    ip.extend([64, protocol, 0, 0]);
    ip.extend(from);
    ip.extend(to);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, to[3], 2, 0, 0, 0, 0, from[3], 8, 0];
    frame.extend(ip);
    frame.extend(data);
    frame
}

/// Puts the checksum over a segment and its pseudo header (RFC 9293, 3.1; RFC 768) in its place.
fn seal(segment: &mut [u8], at: usize, protocol: u8, from: [u8; 4], to: [u8; 4]) {
    let mut covered = [from, to].concat();
    covered.extend([0, protocol]);
    covered.extend(u16::try_from(segment.len()).unwrap().to_be_bytes());
    covered.extend_from_slice(segment);
    let sum = checksum(&covered);
    segment[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap()
}
