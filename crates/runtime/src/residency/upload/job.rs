//! Jobs: what one staging buffer carries. Row shards of weights are cut into parts, parts packed into jobs.

use crate::residency::RowShard;
use std::ops::Range;
use std::time::{Duration, Instant};
use wgoose_loader::Model;

/// Where parts begin in a staging buffer and in a shard, a multiple of what copies need (4 bytes) and bindings like.
const ALIGN: usize = 16;

/// Where a part's bytes come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A range of the file, as it lies there.
    File(Range<usize>),
    /// Rows that the file holds in pieces, or transposed.
    Rows(Range<usize>),
    /// All numbers of a vector, as F32.
    Floats,
}

/// Some bytes of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) shard: RowShard,
    pub(crate) origin: Origin,
    /// Bytes; only a shard's last part may end inside a word.
    pub(crate) len: usize,
    /// First byte in the staging buffer.
    pub(crate) at: usize,
    /// First byte in the shard.
    pub(crate) to: u64,
    /// The first group of dispatches that needs it.
    pub(crate) group: usize,
}

/// What one staging buffer carries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    pub(crate) parts: Vec<Part>,
}

impl Job {
    /// Bytes of the staging buffer that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.last().map_or(0, |p| (p.at + p.len).next_multiple_of(ALIGN))
    }
}

/// Cuts shards, in the order given, into jobs of at most `room` bytes; a job carries shards of one group alone where
/// `apart` is set. A single row of a vector or of a matrix that lies in pieces may exceed `room`.
pub(crate) fn cut(model: &Model, shards: &[(RowShard, usize)], room: usize, apart: bool) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for &(shard, group) in shards {
        for (origin, len, to) in parts(model, shard, room) {
            let fits = |j: &Job| j.bytes() + len <= room && (!apart || j.parts.iter().all(|p| p.group == group));
            if !jobs.last().is_some_and(fits) {
                jobs.push(Job::default());
            }
            if let Some(job) = jobs.last_mut() {
                let at = job.bytes();
                job.parts.push(Part { shard, origin, len, at, to, group });
            }
        }
    }
    jobs
}

/// The parts of a shard: where from, how many bytes, where to.
fn parts(model: &Model, shard: RowShard, room: usize) -> Vec<(Origin, usize, u64)> {
    let view = model.tensor(shard.weight);
    let row_bytes = view.row_bytes();
    let rows = shard.first as usize..(shard.first + shard.rows) as usize;
    if shard.is_vector() {
        return vec![(Origin::Floats, rows.len() * view.cols() * 4, 0)];
    }
    let bytes = rows.len() * row_bytes;
    match view.file_range() {
        Some(file) => {
            let begin = file.start + rows.start * row_bytes;
            let step = (room / shard.quantum() * shard.quantum()).max(shard.quantum());
            let part = |from: usize| {
                let len = step.min(bytes - from);
                (Origin::File(begin + from..begin + from + len), len, from as u64)
            };
            (0..bytes).step_by(step).map(part).collect()
        }
        None => {
            let step = (room / row_bytes.max(1) / ALIGN * ALIGN).max(ALIGN);
            let part = |first: usize| {
                let last = (first + step).min(rows.end);
                let to = ((first - rows.start) * row_bytes) as u64;
                (Origin::Rows(first..last), (last - first) * row_bytes, to)
            };
            rows.clone().step_by(step).map(part).collect()
        }
    }
}

/// What fills a job's staging buffer, a thread each.
pub(crate) fn fill(
    model: &Model,
    job: &Job,
    view: &mut wgpu::BufferViewMut,
    bounce: &mut Vec<u8>,
) -> Result<(), wgoose_loader::LoadError> {
    for part in &job.parts {
        // A word that the part ends in is filled up with zeros.
        let padded = part.len.next_multiple_of(4);
        let mut put =
            |at: usize, bytes: &[u8]| view.slice(part.at + at..part.at + at + bytes.len()).copy_from_slice(bytes);
        match &part.origin {
            Origin::File(range) => {
                // Mapped memory may be write-combined: bytes pass through the cache, in pieces that fit.
                for start in range.clone().step_by(BOUNCE) {
                    let len = BOUNCE.min(range.end - start);
                    bounce.resize(len, 0);
                    let begun = Instant::now();
                    model.read(start..start + len, bounce)?;
                    if start == range.start && begun.elapsed() > SLOW {
                        // From a disk: let the rest come while this is copied.
                        model.will_need_range(start + len..range.end);
                    }
                    bounce.resize(len.next_multiple_of(4), 0);
                    put(start - range.start, bounce);
                }
            }
            Origin::Rows(rows) => {
                bounce.clear();
                bounce.resize(padded, 0);
                model.tensor(part.shard.weight).copy_rows(rows.clone(), &mut bounce[..part.len]);
                put(0, bounce);
            }
            Origin::Floats => put(0, bytemuck::cast_slice(&model.tensor(part.shard.weight).to_f32())),
        }
    }
    Ok(())
}

/// Longer than this and [`BOUNCE`] bytes did not come from memory.
const SLOW: Duration = Duration::from_millis(1);

/// Bytes read at a time.
const BOUNCE: usize = 256 << 10;
