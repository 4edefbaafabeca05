//! Repacking on the device equals its definition, chunk by chunk, and touches nothing else.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use wgoose_graph::Format;
use wgoose_kernels::repack::Chunk;
use wgoose_loader::blocks;
use wgoose_runtime::kernel_bench::repack;
use wgoose_runtime::{Device, DeviceOptions};

const INTERLEAVED: [Format; 3] = [Format::Q8_0_X8, Format::Q4_0_X8, Format::Q6_K_X8];

/// Bytes that nobody may write.
const GUARD: u8 = 0xC5;

/// Random blocks, cut in chunks of so many groups of eight, interleaved behind so many groups of another's; one more
/// stands behind.
fn blocks_of_eight() -> impl Strategy<Value = (Format, Vec<u8>, usize, usize)> {
    let blocks = (prop::sample::select(&INTERLEAVED[..]), 1usize..200).prop_flat_map(|(format, count)| {
        (Just(format), prop::collection::vec(any::<u8>(), count * format.block_bytes()))
    });
    (blocks, 1usize..12, 0usize..5).prop_map(|((format, blocks), chunk, first)| (format, blocks, chunk, first))
}

fn assert_interleaved(device: &Arc<Device>, to: Format, raw: &[u8], chunk_groups: usize, first: usize) {
    let group = Format::INTERLEAVED_BLOCKS * to.block_bytes();
    let groups = raw.len().div_ceil(group);
    let before = vec![GUARD; (first + groups + 1) * group];
    let mut want = before.clone();
    blocks::interleave(to.as_in_file(), raw, &mut want[first * group..(first + groups) * group]);

    let chunk = |(i, blocks): (usize, _)| {
        let first = (first + i * chunk_groups) as u32;
        (Chunk { to, bytes: <[u8]>::len(blocks) as u32, first, cols: 0, rows: 0 }, blocks)
    };
    let mut chunks: Vec<(Chunk, &[u8])> = raw.chunks(chunk_groups * group).enumerate().map(chunk).collect();
    // Pieces are independent: any order will do.
    chunks.reverse();
    let got = repack(device, &before, &chunks).unwrap();
    let wrong = got.iter().zip(&want).position(|(got, want)| got != want);
    assert_eq!(wrong, None, "{to}: {} bytes in chunks of {chunk_groups} groups behind {first}", raw.len());
}

#[test]
fn interleaved_blocks_equal_their_definition() {
    let device = Device::open(None).unwrap();
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    runner
        .run(&blocks_of_eight(), |(format, raw, chunk, first)| {
            assert_interleaved(&device, format, &raw, chunk, first);
            Ok(())
        })
        .unwrap();
}

/// A random matrix, cut in chunks of so many panels of eight rows.
fn k_major() -> impl Strategy<Value = (Format, Vec<u8>, usize, usize)> {
    let sizes = (prop::sample::select(Format::all_k_major().collect::<Vec<_>>()), 1usize..60, 1usize..4);
    let matrix = sizes.prop_flat_map(|(format, rows, blocks)| {
        let cols = blocks * format.block_weights().max(32);
        let bytes = rows * cols / format.block_weights() * format.block_bytes();
        (Just(format), prop::collection::vec(any::<u8>(), bytes), Just(cols))
    });
    (matrix, 1usize..5).prop_map(|((format, raw, cols), chunk)| (format, raw, cols, chunk))
}

fn assert_k_major(device: &Arc<Device>, to: Format, raw: &[u8], cols: usize, chunk_panels: usize) {
    let row_bytes = cols / to.block_weights() * to.block_bytes();
    let rows = raw.len() / row_bytes;
    let mut want = vec![0; to.bytes(rows, cols).unwrap()];
    blocks::to_k_major(to.as_in_file(), cols, raw, &mut want);
    let before = vec![GUARD; want.len() + 16];
    want.extend([GUARD; 16]);

    let chunk = |(i, blocks): (usize, _)| {
        let (bytes, first) = (<[u8]>::len(blocks) as u32, (i * chunk_panels) as u32);
        (Chunk { to, bytes, first, cols: cols as u32, rows: rows as u32 }, blocks)
    };
    let chunks = raw.chunks(chunk_panels * Format::PANEL_ROWS * row_bytes);
    let mut chunks: Vec<(Chunk, &[u8])> = chunks.enumerate().map(chunk).collect();
    chunks.reverse();
    let got = repack(device, &before, &chunks).unwrap();
    let wrong = got.iter().zip(&want).position(|(got, want)| got != want);
    assert_eq!(wrong, None, "{to}: {rows} x {cols} in chunks of {chunk_panels} panels");
}

#[test]
fn k_major_equals_its_definition() {
    let device = Device::open(None).unwrap();
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    runner
        .run(&k_major(), |(format, raw, cols, chunk)| {
            assert_k_major(&device, format, &raw, cols, chunk);
            Ok(())
        })
        .unwrap();
}

/// A device with few workgroups per dimension folds the grid, whose last row is then not full.
#[test]
fn large_chunks_are_folded() {
    let few = |limits: &mut wgoose_kernels::Limits| limits.workgroups_per_dimension = 7;
    let device = Device::open_limited(&DeviceOptions::default(), &few).unwrap();
    let bytes = |len: usize| -> Vec<u8> { (0..len).map(|i| ((i * 7919) >> 5) as u8).collect() };
    for format in INTERLEAVED {
        // 43 stores of 1 KiB or a little less, in rows of 7 workgroups at most.
        let count = (40_500 / format.block_bytes()).next_multiple_of(8) + 3;
        assert_interleaved(&device, format, &bytes(count * format.block_bytes()), count, 2);
    }
    for format in Format::all_k_major() {
        let rows = 10_000 / format.as_in_file().bytes(1, 256).unwrap();
        assert_k_major(&device, format, &bytes(format.as_in_file().bytes(rows, 256).unwrap()), 256, rows);
    }
}

#[test]
fn formats_of_files_are_not_repacked() {
    let device = Device::open(None).unwrap();
    for to in [Format::F16, Format::Q4_K, Format::Q8_0] {
        let chunk = Chunk { to, bytes: 16, first: 0, cols: 256, rows: 1 };
        let error = repack(&device, &[0; 16], &[(chunk, &[0; 16])]).unwrap_err().to_string();
        assert!(error.contains(to.name()) && error.contains("hold that format as it is"), "{error}");
    }
}
