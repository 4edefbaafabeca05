//! Repacking on the device equals its definition, piece by piece, and touches nothing else.

#![allow(clippy::unwrap_used)] // a failed helper is a failed test

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wgoose_graph::Format;
use wgoose_loader::blocks;
use wgoose_runtime::lab::{Piece, repack};
use wgoose_runtime::{Device, DeviceOptions};

const TILEABLE: [Format; 3] = [Format::Q8_0, Format::Q4_0, Format::Q6_K];

/// Bytes of a tile that nobody may write.
const CANARY: u8 = 0xC5;

/// Random blocks, cut in pieces of so many tiles, repacked behind so many tiles of another's; one more stands behind.
fn case() -> impl Strategy<Value = (Format, Vec<u8>, usize, usize)> {
    let blocks = (prop::sample::select(&TILEABLE[..]), 1usize..200).prop_flat_map(|(format, count)| {
        (Just(format), prop::collection::vec(any::<u8>(), count * format.block_bytes()))
    });
    (blocks, 1usize..12, 0usize..5).prop_map(|((format, blocks), piece, first)| (format, blocks, piece, first))
}

fn assert_repacks(device: &std::sync::Arc<Device>, format: Format, raw: &[u8], piece_tiles: usize, first: usize) {
    let tile = Format::TILE_BLOCKS * format.block_bytes();
    let tiles = raw.len().div_ceil(tile);
    let before = vec![CANARY; (first + tiles + 1) * tile];
    let mut want = before.clone();
    blocks::tile(format, raw, &mut want[first * tile..(first + tiles) * tile]);

    let mut pieces: Vec<Piece<'_>> = (0..)
        .zip(raw.chunks(piece_tiles * tile))
        .map(|(i, blocks)| Piece { blocks, first_tile: (first + i * piece_tiles) as u32 })
        .collect();
    // Pieces are independent: any order will do.
    pieces.reverse();
    let got = repack(device, format, &before, &pieces).unwrap();
    let wrong = got.iter().zip(&want).position(|(got, want)| got != want);
    assert_eq!(wrong, None, "{format}: {} bytes in pieces of {piece_tiles} tiles behind {first}", raw.len());
}

#[test]
fn repacking_equals_its_definition() {
    let device = Device::open(None).unwrap();
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    runner
        .run(&case(), |(format, raw, piece, first)| {
            assert_repacks(&device, format, &raw, piece, first);
            Ok(())
        })
        .unwrap();
}

/// A device with few workgroups per dimension folds the grid, whose last row is then not full.
#[test]
fn large_pieces_are_folded() {
    let few = |limits: &mut wgoose_kernels::Limits| limits.workgroups_per_dimension = 7;
    let device = Device::open_limited(&DeviceOptions::default(), &few).unwrap();
    for format in TILEABLE {
        // 43 stores of 1 KiB or a little less, in rows of 7 workgroups at most.
        let count = (40_500 / format.block_bytes()).next_multiple_of(8) + 3;
        let raw: Vec<u8> = (0..count * format.block_bytes()).map(|i| ((i * 7919) >> 5) as u8).collect();
        assert_repacks(&device, format, &raw, count, 2);
    }
}

#[test]
fn formats_without_tiles_are_refused() {
    let device = Device::open(None).unwrap();
    for format in [Format::F16, Format::Q4_K, Format::Q8_0T] {
        let error = repack(&device, format, &[0; 16], &[]).unwrap_err().to_string();
        assert!(error.contains(format.name()) && error.contains("can be repacked"), "{error}");
    }
}
