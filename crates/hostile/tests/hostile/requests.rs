//! Requests of strangers: whatever is sent, the server parses or refuses it.

use proptest::prelude::*;
use std::sync::LazyLock;
use wgoose_hostile::{Seed, request_status, seeds, upload_status};

/// What a change does to a body.
#[derive(Clone, Debug)]
enum Change {
    Replace(usize, u8),
    Insert(usize, String),
    Remove(usize, usize),
    Repeat(usize, usize),
}

/// Text that JSON, forms or the fields of requests have.
fn pieces() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        Just("-1".to_owned()),
        Just("1e999".to_owned()),
        Just("18446744073709551616".to_owned()),
        Just("{\"a\":".to_owned()),
        Just("[".repeat(200)),
        Just("\\ud800".to_owned()),
        Just("\"state_id\": \"../a\",".to_owned()),
        Just("\"tools\": [{}],".to_owned()),
        "[ -~]{0,12}",
    ]
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let one = prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Replace(at, byte)),
        (any::<usize>(), pieces()).prop_map(|(at, text)| Change::Insert(at, text)),
        (any::<usize>(), 1..40usize).prop_map(|(at, len)| Change::Remove(at, len)),
        (any::<usize>(), 1..40usize).prop_map(|(at, len)| Change::Repeat(at, len)),
    ];
    prop::collection::vec(one, 0..6)
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let place = |at: &usize| at % (bytes.len() + 1);
        match change {
            Change::Replace(at, byte) => {
                let at = place(at);
                bytes.splice(at..(at + 1).min(bytes.len()), [*byte]);
            }
            Change::Insert(at, text) => {
                let at = place(at);
                bytes.splice(at..at, text.bytes());
            }
            Change::Remove(at, len) => {
                let at = place(at);
                bytes.drain(at..(at + len).min(bytes.len()));
            }
            Change::Repeat(at, len) => {
                let at = place(at);
                let part = bytes[at..(at + len).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

fn seeds_of(format: &str) -> Vec<&'static [u8]> {
    static SEEDS: LazyLock<Vec<Seed>> = LazyLock::new(|| seeds().unwrap());
    SEEDS.iter().filter(|(name, _)| *name == format).map(|(_, bytes)| &bytes[..]).collect()
}

#[test]
fn valid_requests_are_understood() {
    for bytes in seeds_of("request") {
        let status = request_status(bytes);
        let is_form = bytes[0] == 7;
        let is_understood = if is_form { status == 400 } else { matches!(status, 200 | 503) };
        assert!(is_understood, "{status}: {}", String::from_utf8_lossy(&bytes[1..]));
    }
    let statuses: Vec<u16> = seeds_of("upload").iter().map(|bytes| upload_status(bytes)).collect();
    assert_eq!(statuses, [200, 200, 400], "a saved state, a tuned one, and a model");
}

proptest! {
    #[test]
    fn random_bodies_are_refused(path in any::<u8>(), body in prop::collection::vec(any::<u8>(), 0..400)) {
        let status = request_status(&[&[path][..], &body].concat());
        prop_assert!((200..600).contains(&status));
        upload_status(&body);
    }

    #[test]
    fn changed_requests_are_parsed_or_refused(seed in any::<prop::sample::Index>(), changes in changes()) {
        let seeds = seeds_of("request");
        let status = request_status(&changed(seeds[seed.index(seeds.len())].to_vec(), &changes));
        prop_assert!(matches!(status, 200 | 400 | 404 | 409 | 413 | 415 | 501 | 503 | 507), "{status}");
    }

    #[test]
    fn changed_states_are_read_or_refused(seed in any::<prop::sample::Index>(), changes in changes()) {
        let seeds = seeds_of("upload");
        let status = upload_status(&changed(seeds[seed.index(seeds.len())].to_vec(), &changes));
        prop_assert!(matches!(status, 200 | 400 | 507 | 503), "{status}");
    }
}
