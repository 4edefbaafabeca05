//! Repacking on the device equals its definition, piece by piece, and touches nothing else.

#![allow(clippy::unwrap_used)] // a failed helper is a failed test

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use wgoose_graph::Format;
use wgoose_kernels::repack::Piece;
use wgoose_loader::blocks;
use wgoose_runtime::lab::repack;
use wgoose_runtime::{Device, DeviceOptions};

const TILED: [Format; 3] = [Format::Q8_0T, Format::Q4_0T, Format::Q6_KT];

/// Bytes that nobody may write.
const CANARY: u8 = 0xC5;

/// Random blocks, cut in pieces of so many tiles, repacked behind so many tiles of another's; one more stands behind.
fn tiles() -> impl Strategy<Value = (Format, Vec<u8>, usize, usize)> {
    let blocks = (prop::sample::select(&TILED[..]), 1usize..200).prop_flat_map(|(format, count)| {
        (Just(format), prop::collection::vec(any::<u8>(), count * format.block_bytes()))
    });
    (blocks, 1usize..12, 0usize..5).prop_map(|((format, blocks), piece, first)| (format, blocks, piece, first))
}

fn assert_tiles(device: &Arc<Device>, to: Format, raw: &[u8], piece_tiles: usize, first: usize) {
    let tile = Format::TILE_BLOCKS * to.block_bytes();
    let tiles = raw.len().div_ceil(tile);
    let before = vec![CANARY; (first + tiles + 1) * tile];
    let mut want = before.clone();
    blocks::tile(to.as_in_file(), raw, &mut want[first * tile..(first + tiles) * tile]);

    let piece = |(i, blocks): (usize, _)| {
        let first = (first + i * piece_tiles) as u32;
        (Piece { to, bytes: <[u8]>::len(blocks) as u32, first, cols: 0, rows: 0 }, blocks)
    };
    let mut pieces: Vec<(Piece, &[u8])> = raw.chunks(piece_tiles * tile).enumerate().map(piece).collect();
    // Pieces are independent: any order will do.
    pieces.reverse();
    let got = repack(device, &before, &pieces).unwrap();
    let wrong = got.iter().zip(&want).position(|(got, want)| got != want);
    assert_eq!(wrong, None, "{to}: {} bytes in pieces of {piece_tiles} tiles behind {first}", raw.len());
}

#[test]
fn tiles_equal_their_definition() {
    let device = Device::open(None).unwrap();
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    runner
        .run(&tiles(), |(format, raw, piece, first)| {
            assert_tiles(&device, format, &raw, piece, first);
            Ok(())
        })
        .unwrap();
}

/// A random matrix, cut in pieces of so many eights of rows.
fn columns() -> impl Strategy<Value = (Format, Vec<u8>, usize, usize)> {
    let sizes = (prop::sample::select(&Format::IN_COLUMNS[..]), 1usize..60, 1usize..4);
    let matrix = sizes.prop_flat_map(|(format, rows, blocks)| {
        let cols = blocks * format.block_weights().max(32);
        let bytes = rows * cols / format.block_weights() * format.block_bytes();
        (Just(format), prop::collection::vec(any::<u8>(), bytes), Just(cols))
    });
    (matrix, 1usize..5).prop_map(|((format, raw, cols), piece)| (format, raw, cols, piece))
}

fn assert_columns(device: &Arc<Device>, to: Format, raw: &[u8], cols: usize, piece_eights: usize) {
    let row_bytes = cols / to.block_weights() * to.block_bytes();
    let rows = raw.len() / row_bytes;
    let mut want = vec![0; to.bytes(rows, cols).unwrap()];
    blocks::to_columns(to.as_in_file(), cols, raw, &mut want);
    let before = vec![CANARY; want.len() + 16];
    want.extend([CANARY; 16]);

    let piece = |(i, blocks): (usize, _)| {
        let (bytes, first) = (<[u8]>::len(blocks) as u32, (i * piece_eights) as u32);
        (Piece { to, bytes, first, cols: cols as u32, rows: rows as u32 }, blocks)
    };
    let chunks = raw.chunks(piece_eights * Format::COLUMN_ROWS * row_bytes);
    let mut pieces: Vec<(Piece, &[u8])> = chunks.enumerate().map(piece).collect();
    pieces.reverse();
    let got = repack(device, &before, &pieces).unwrap();
    let wrong = got.iter().zip(&want).position(|(got, want)| got != want);
    assert_eq!(wrong, None, "{to}: {rows} x {cols} in pieces of {piece_eights} eights of rows");
}

#[test]
fn columns_equal_their_definition() {
    let device = Device::open(None).unwrap();
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    runner
        .run(&columns(), |(format, raw, cols, piece)| {
            assert_columns(&device, format, &raw, cols, piece);
            Ok(())
        })
        .unwrap();
}

/// A device with few workgroups per dimension folds the grid, whose last row is then not full.
#[test]
fn large_pieces_are_folded() {
    let few = |limits: &mut wgoose_kernels::Limits| limits.workgroups_per_dimension = 7;
    let device = Device::open_limited(&DeviceOptions::default(), &few).unwrap();
    let bytes = |len: usize| -> Vec<u8> { (0..len).map(|i| ((i * 7919) >> 5) as u8).collect() };
    for format in TILED {
        // 43 stores of 1 KiB or a little less, in rows of 7 workgroups at most.
        let count = (40_500 / format.block_bytes()).next_multiple_of(8) + 3;
        assert_tiles(&device, format, &bytes(count * format.block_bytes()), count, 2);
    }
    for format in Format::IN_COLUMNS {
        let rows = 10_000 / format.as_in_file().bytes(1, 256).unwrap();
        assert_columns(&device, format, &bytes(format.as_in_file().bytes(rows, 256).unwrap()), 256, rows);
    }
}

#[test]
fn what_files_hold_is_not_made() {
    let device = Device::open(None).unwrap();
    for to in [Format::F16, Format::Q4_K, Format::Q8_0] {
        let piece = Piece { to, bytes: 16, first: 0, cols: 256, rows: 1 };
        let error = repack(&device, &[0; 16], &[(piece, &[0; 16])]).unwrap_err().to_string();
        assert!(error.contains(to.name()) && error.contains("no format in tiles or in columns"), "{error}");
    }
}
