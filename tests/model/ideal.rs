//! A reader that is right by brute force: it decodes the whole file at every look. The model must agree with it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

use super::reader::{Mode, Opened, Reader, Stat};
use super::truth::file_id;

/// First 40 source bytes, by which captures are told apart.
type First = Option<[u8; 40]>;
/// Device and inode number.
type Physical = (u64, u64);

const ENDINGS: [&str; 4] = ["", ".zst", ".partial", ".zst.partial"];

#[derive(Default)]
pub struct Ideal {
    folder: PathBuf,
    next: u64,
    nodes: HashMap<u64, Node>,
    names: HashMap<String, u64>,
    handles: HashMap<u64, (u64, File, usize)>,
}

#[derive(Clone)]
struct Node {
    name: String,
    first: First,
    header: Option<[u8; 24]>,
    file: Physical,
    /// Source bytes published from each file.
    published: HashMap<Physical, usize>,
    /// Files that were seen under a final name.
    finals: Vec<Physical>,
}

/// What a file holds now.
struct Scan {
    source: Vec<u8>,
    /// Bytes behind the source that show but cannot be read.
    unmapped: usize,
    torn: usize,
    frames: usize,
    is_damaged: bool,
}

impl Ideal {
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            ..Self::default()
        }
    }

    fn find(&self, name: &str) -> Result<(File, usize), i32> {
        let open = |ending: usize| File::open(self.folder.join(name.to_owned() + ENDINGS[ending]));
        let found = (0..4).find_map(|ending| open(ending).ok().map(|file| (file, ending)));
        found.ok_or(libc::ENOENT)
    }

    /// The inode of `name` and what its file holds; the size is published.
    fn settle(&mut self, name: &str) -> Result<(u64, Scan, fs::Metadata, usize), i32> {
        let (file, ending) = self.find(name)?;
        let metadata = file.metadata().unwrap();
        let physical = (metadata.dev(), metadata.ino());
        let scan = scan(&file, ending % 2 == 1, ending < 2);
        let first = scan.source.first_chunk().copied();
        let known = self.names.get(name).copied();
        let header = scan.source.first_chunk().copied();
        let is_same = |node: &Node| match (node.first, first) {
            (Some(old), Some(new)) => old == new,
            (Some(_), None) => node.file == physical && ending >= 2,
            (None, _) => {
                let is_other = header.is_some() && node.header.is_some() && header != node.header;
                node.file == physical && !is_other
            }
        };
        let old = known.filter(|ino| is_same(&self.nodes[ino]));
        let fits = |node: &&Node| node.name == name && node.first.is_some() && node.first == first;
        let ino = old.or_else(|| {
            let mut nodes = self.nodes.iter();
            nodes.find(|(_, node)| fits(node)).map(|(ino, _)| *ino)
        });
        let ino = ino.unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        self.names.insert(name.to_owned(), ino);
        let node = self.nodes.entry(ino).or_insert_with(|| Node {
            name: name.to_owned(),
            first,
            header,
            file: physical,
            published: HashMap::new(),
            finals: Vec::new(),
        });
        node.file = physical;
        if ending < 2 {
            node.finals.push(physical);
        }
        publish(node, physical, &scan);
        Ok((ino, scan, metadata, ending))
    }

    /// What a handle's file holds now; `None` when that is another capture.
    fn look(&mut self, opened: &Opened) -> (Option<Scan>, usize) {
        let (ino, file, ending) = &self.handles[&opened.handle];
        let metadata = file.metadata().unwrap();
        let physical = (metadata.dev(), metadata.ino());
        let node = self.nodes.get_mut(ino).unwrap();
        let scan = scan(file, ending % 2 == 1, node.finals.contains(&physical));
        let is_same = publish(node, physical, &scan);
        let published = node.published[&physical];
        (Some(scan).filter(|_| is_same), published)
    }
}

/// Publishes what `scan` shows, unless it is another capture than the node's.
fn publish(node: &mut Node, file: Physical, scan: &Scan) -> bool {
    let first = scan.source.first_chunk().copied();
    let published = node.published.entry(file).or_default();
    let seen = &scan.source[..scan.source.len().min(40)];
    let header = scan.source.first_chunk().copied();
    let is_other_header = header.is_some() && node.header.is_some() && header != node.header;
    if is_other_header || node.first.is_some_and(|first| !first.starts_with(seen)) {
        return false;
    }
    node.first = node.first.or(first);
    node.header = node.header.or(header);
    *published = scan.source.len().max(*published);
    true
}

fn scan(file: &File, is_zst: bool, is_final: bool) -> Scan {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; file.metadata().unwrap().len().try_into().unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let mut scan = Scan {
        source: Vec::new(),
        unmapped: 0,
        torn: 0,
        frames: 0,
        is_damaged: false,
    };
    if is_zst {
        scan_frames(&bytes, is_final, &mut scan);
    } else if is_final {
        scan.source = bytes;
    } else {
        let len = whole_records(&bytes);
        scan.torn = bytes.len() - len;
        bytes.truncate(len);
        scan.source = bytes;
    }
    scan
}

fn scan_frames(bytes: &[u8], is_final: bool, scan: &mut Scan) {
    let mut at = 0;
    while let Ok(len) = zstd::zstd_safe::find_frame_compressed_size(&bytes[at..]) {
        if len == 0 || at + len > bytes.len() {
            break;
        }
        let content = zstd::decode_all(&bytes[at..at + len]).unwrap();
        scan.frames += usize::from(!content.is_empty() && !scan.source.is_empty());
        scan.source.extend(content);
        at += len;
    }
    scan.torn = bytes.len() - at;
    let is_zeros = scan.torn > 0 && bytes[at..].iter().all(|byte| *byte == 0);
    if bytes.get(at) == Some(&b'x') || (is_zeros && is_final) {
        (scan.unmapped, scan.torn, scan.is_damaged) = (scan.torn, 0, true);
    }
}

fn whole_records(bytes: &[u8]) -> usize {
    if bytes.len() < 24 || bytes.starts_with(&[0; 4]) {
        return 0;
    }
    let is_little = bytes[0] == 0xD4 || bytes[0] == 0x4D;
    let mut at = 24;
    while let Some(header) = bytes[at..].first_chunk::<16>() {
        let len = header[8..12].try_into().unwrap();
        let len = if is_little {
            u32::from_le_bytes(len)
        } else {
            u32::from_be_bytes(len)
        };
        let end = at + 16 + len as usize;
        if end > bytes.len() || *header == [0; 16] {
            break;
        }
        at = end;
    }
    at
}

impl Reader for Ideal {
    fn look_up(&mut self, name: &str) -> Result<Stat, i32> {
        let (ino, scan, metadata, _) = self.settle(name)?;
        let node = &self.nodes[&ino];
        Ok(Stat {
            ino,
            size: node.published[&node.file] + scan.unmapped,
            blocks: metadata.blocks().max(1),
            mtime: metadata.modified().unwrap(),
        })
    }

    fn open(&mut self, name: &str) -> Result<Opened, i32> {
        let (ino, scan, _, ending) = self.settle(name)?;
        let (file, _) = self.find(name)?;
        self.next += 1;
        self.handles.insert(self.next, (ino, file, ending));
        let is_complete = ending < 2 && !scan.is_damaged && (scan.torn == 0 || ending == 0);
        Ok(Opened {
            handle: self.next,
            ino,
            mode: if is_complete && ending != 0 {
                Mode::Fresh
            } else {
                Mode::Direct
            },
        })
    }

    fn open_known(&mut self, _: u64) -> Option<Result<Opened, i32>> {
        None
    }

    fn stat(&mut self, opened: &Opened) -> Result<usize, i32> {
        let (scan, published) = self.look(opened);
        Ok(published + scan.map_or(0, |scan| scan.unmapped))
    }

    fn read(&mut self, opened: &Opened, from: usize, len: usize) -> Result<Vec<u8>, i32> {
        let (scan, published) = self.look(opened);
        let scan = scan.ok_or(libc::EIO)?;
        let end = scan.source.len().min(from + len);
        match scan.source.get(from..end) {
            Some(bytes) if !bytes.is_empty() => Ok(bytes.to_vec()),
            _ if from >= published + scan.unmapped => Ok(Vec::new()),
            _ => Err(libc::EIO),
        }
    }

    fn close(&mut self, opened: &Opened) {
        self.handles.remove(&opened.handle);
    }

    fn attribute(&mut self, logical: &str, _: u64, name: &str) -> Result<String, i32> {
        let (_, scan, metadata, ending) = self.settle(logical)?;
        Ok(match name {
            "format" => if ending % 2 == 1 { "zst" } else { "raw" }.to_owned(),
            "physical_name" => logical.to_owned() + ENDINGS[ending],
            "physical_size" => metadata.len().to_string(),
            "state" => match ending {
                _ if scan.is_damaged => "damaged",
                0 => "complete",
                1 if scan.torn == 0 => "complete",
                1 => "draining",
                _ => "growing",
            }
            .to_owned(),
            "frames" => scan.frames.to_string(),
            "torn_bytes" => scan.torn.to_string(),
            _ if scan.source.len() >= 40 => file_id(&scan.source),
            _ => "0-00000000".to_owned(),
        })
    }

    fn list(&mut self) -> Vec<(String, Option<u64>)> {
        let names = ["a.pcap", "b.pcap", "c.pcap"];
        let there = names.into_iter().filter(|name| self.find(name).is_ok());
        there.map(|name| (name.to_owned(), None)).collect()
    }

    fn folder_mtime(&mut self) -> SystemTime {
        fs::metadata(&self.folder).unwrap().modified().unwrap()
    }

    fn forget(&mut self, ino: u64) -> bool {
        self.nodes.remove(&ino);
        self.names.retain(|_, known| *known != ino);
        true
    }

    fn has_one_size(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}
