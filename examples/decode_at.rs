//! Reads a compressed capture at given places and tells how long each read took: what a mount can be measured against.
//!
//!     decode_at CAPTURE LENGTH < OFFSETS
//!
//! Takes source offsets, one a line; prints nanoseconds, one a line.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::time::Instant;

use pcapzst::capture::{Engine, Form, OnFault, Progress, Source};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: decode_at CAPTURE LENGTH < OFFSETS";
    let (path, length) = args.next().zip(args.next()).ok_or(usage)?;
    let length = length.parse()?;
    let file = Box::new(File::open(path)?);
    let engine = Arc::new(Engine::default());
    let source = Source::open(engine, file, Form::Zst, Progress::Final)?;
    for line in io::stdin().lock().lines() {
        let offset = line?.parse()?;
        let began = Instant::now();
        black_box(source.read(offset, length, OnFault::Fail)?);
        println!("{}", began.elapsed().as_nanos());
    }
    Ok(())
}
