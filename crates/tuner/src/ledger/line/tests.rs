//! Every record comes back; no damage is believed.

use super::*;
use crate::ledger::record::{Cause, Clock};
use proptest::prelude::*;
use wgoose_graph::Format;
use wgoose_kernels::DeviceFingerprint;

fn identity() -> impl Strategy<Value = Identity> {
    let subject = (
        any::<[String; 3]>(),
        prop::collection::btree_map(any::<String>(), any::<String>(), 0..3),
        prop::collection::btree_map(any::<String>(), any::<u64>(), 0..3),
        prop::option::of(prop::sample::select(Format::all().collect::<Vec<_>>())),
    )
        .prop_map(|([op, variant, kernel_hash], tunables, shape, format)| Subject {
            op,
            variant,
            tunables,
            shape,
            format,
            kernel_hash,
        });
    let device =
        (any::<[String; 4]>(), any::<[u32; 2]>()).prop_map(|([adapter, driver, backend, wgpu], [vendor, device])| {
            DeviceFingerprint { adapter, vendor, device, driver, backend, wgpu }
        });
    let clock = prop::sample::select(vec![Clock::Timestamps, Clock::Wall]);
    let policy =
        (any::<String>(), any::<u32>(), clock).prop_map(|(cache, repeats, clock)| Policy { cache, repeats, clock });
    (subject, device, any::<Option<String>>(), policy).prop_map(|(subject, device, model, policy)| Identity {
        subject,
        device,
        model,
        policy,
    })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let finite = prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO;
    let samples = prop::collection::vec(finite, 0..20);
    let error = || prop::num::f64::ANY.prop_filter("NaN is not equal to itself", |x| !x.is_nan());
    let gate = (any::<bool>(), error(), error(), any::<Option<String>>(), any::<String>())
        .prop_map(|(passed, rms, max, quality_hash, detail)| Gate { passed, rms, max, quality_hash, detail });
    let cause = prop::sample::select(vec![
        Cause::Constraint,
        Cause::Compile,
        Cause::Runtime,
        Cause::Timeout,
        Cause::DeviceLost,
        Cause::WrongResult,
    ]);
    prop_oneof![
        Just(Outcome::Intent),
        (samples.clone(), prop::option::of(gate.clone()))
            .prop_map(|(samples_ns, gate)| Outcome::Kernel { samples_ns, gate }),
        (samples.clone(), prop::option::of(gate.clone()))
            .prop_map(|(samples_ns, gate)| Outcome::Step { samples_ns, gate }),
        samples.prop_map(|samples_ns| Outcome::Control { samples_ns }),
        gate.prop_map(Outcome::Gate),
        (cause, any::<String>()).prop_map(|(cause, text)| Outcome::Failed(Reason { cause, text })),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    (-1e12..1e12f64, identity(), outcome()).prop_map(|(at, identity, outcome)| Record { at, identity, outcome })
}

proptest! {
    #[test]
    fn every_record_comes_back_exactly(record in record()) {
        let (id, line) = encode(&record).unwrap();
        prop_assert!(!line.contains('\n') && line.starts_with(&Head.to_string()));
        let entry = decode(line.as_bytes()).unwrap();
        prop_assert_eq!(&entry.id, &id);
        prop_assert_eq!(&entry.key, &record.identity.key());
        let bits = |r: &Record| r.outcome.samples_ns().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&entry.record), bits(&record), "down to the sign of zero");
        prop_assert_eq!(entry.record, record);
    }

    #[test]
    fn any_changed_byte_is_noticed(record in record(), pick: prop::sample::Index, flip in 1..=255u8) {
        let mut line = encode(&record).unwrap().1.into_bytes();
        let at = pick.index(line.len());
        line[at] ^= flip;
        prop_assert!(decode(&line).is_err());
    }
}

/// A record whose every field is plain.
pub(in crate::ledger) fn plain() -> Record {
    let word = || "x".to_owned();
    let subject = Subject {
        op: word(),
        variant: word(),
        tunables: [("WG".to_owned(), "64".to_owned())].into(),
        shape: [("m".to_owned(), 768)].into(),
        format: Some(Format::Q4_K),
        kernel_hash: word(),
    };
    let device =
        DeviceFingerprint { adapter: word(), vendor: 1, device: 2, driver: word(), backend: word(), wgpu: word() };
    let policy = Policy { cache: "rotated".to_owned(), repeats: 3, clock: Clock::Wall };
    let identity = Identity { subject, device, model: None, policy };
    Record { at: 0.5, identity, outcome: Outcome::Kernel { samples_ns: vec![1.5], gate: None } }
}

/// The plain record's line after `edit`, with an id that vouches for the edited bytes, read back.
fn edited(edit: impl Fn(&str) -> String) -> Result<Entry, LineError> {
    let (id, line) = encode(&plain()).unwrap();
    let behind_id = edit(line.split_once(&format!("\"id\":\"{id}\",")).unwrap().1);
    decode(format!("{Head}{}\",{behind_id}", hash(&behind_id)).as_bytes())
}

#[test]
fn meaning_is_checked_even_where_the_id_agrees() {
    assert!(edited(str::to_owned).is_ok());
    assert!(matches!(edited(|s| s.replace("\"at\"", "\"new\":1,\"at\"")), Err(LineError::Json(_))), "unknown field");
    assert!(matches!(edited(|s| s.replace("\"m\":768", "\"m\":769")), Err(LineError::Key { .. })));
    assert!(matches!(edited(|s| s.replace("\"kernel\"", "\"intent\"")), Err(LineError::Fields { .. })));
    assert!(matches!(edited(|s| s.replace(",\"samples_ns\":[1.5]", "")), Err(LineError::Fields { .. })));
}

#[test]
fn another_schema_is_named_before_anything_else() {
    let error = decode(b"{\"schema\":2,\"who\":\"knows\"}").unwrap_err();
    assert!(matches!(error, LineError::Schema { found: 2 }), "{error}");
}
