//! Every record comes back; no damage is believed.

use super::*;
use crate::job::{Configured, Cost, Job, PlanId, SiteId};
use crate::ledger::error::Head;
use crate::ledger::{
    Alike, Cause, Clock, Decision, Gate, Identity, Outcome, PlanRecord, Reason, Record, Refused, SessionRecord, Timing,
    Trial,
};
use crate::scenario::Scenario;
use proptest::prelude::*;
use wgoose_graph::{Format, ModelShape};
use wgoose_kernels::plan::{Checked, TuningKey};
use wgoose_kernels::{DeviceFingerprint, Limits, Plan, PrecisionClass};

fn device() -> impl Strategy<Value = DeviceFingerprint> {
    (any::<[String; 4]>(), any::<[u32; 2]>()).prop_map(|([adapter, driver, backend, wgpu], [vendor, device])| {
        DeviceFingerprint { adapter, vendor, device, driver, backend, wgpu }
    })
}

fn site() -> impl Strategy<Value = SiteId> {
    let formats = prop::collection::vec(prop::sample::select(Format::all().collect::<Vec<_>>()), 0..3);
    (any::<String>(), any::<[u32; 5]>(), formats).prop_map(|(op, [k, m, up_to_rows, rows, segments], formats)| SiteId {
        key: TuningKey { op, k, m, formats, up_to_rows },
        rows,
        segments,
    })
}

fn configured() -> impl Strategy<Value = Configured> {
    let config = prop::collection::btree_map(any::<String>(), any::<String>(), 0..3);
    (any::<[String; 2]>(), config).prop_map(|([variant, text], config)| Configured { variant, config, text })
}

fn scenario() -> impl Strategy<Value = Scenario> {
    any::<([u32; 2], bool)>().prop_map(|([tokens, sequences], from_start)| Scenario { tokens, sequences, from_start })
}

fn job() -> impl Strategy<Value = Job> {
    let plan = || any::<String>().prop_map(PlanId);
    prop_oneof![
        (site(), configured()).prop_map(|(site, kernel)| Job::Kernel { site, kernel }),
        (site(), [configured(), configured()], any::<bool>()).prop_map(|(site, kernels, held_out)| Job::Kernels {
            site,
            kernels,
            held_out
        }),
        site().prop_map(|site| Job::Compile { site }),
        (site(), configured()).prop_map(|(site, kernel)| Job::Control { site, kernel }),
        (plan(), any::<bool>()).prop_map(|(plan, only_decode)| Job::Gate { plan, only_decode }),
        (plan(), any::<bool>()).prop_map(|(plan, only_decode)| Job::ExtendedGate { plan, only_decode }),
        plan().prop_map(|plan| Job::Resident { plan }),
        prop::collection::vec(plan(), 0..3).prop_map(|plans| Job::Prepare { plans }),
        ([plan(), plan()], scenario()).prop_map(|(plans, scenario)| Job::Screen { plans, scenario }),
        ([plan(), plan()], scenario(), any::<bool>()).prop_map(|(plans, scenario, held_out)| Job::Steps {
            plans,
            scenario,
            held_out
        }),
        ([plan(), plan()], scenario(), any::<u32>()).prop_map(|(plans, scenario, process)| Job::Confirm {
            plans,
            scenario,
            process
        }),
    ]
}

fn identity() -> impl Strategy<Value = Identity> {
    let clock = prop::sample::select(vec![Clock::Timestamps, Clock::Wall, Clock::Simulated]);
    (job(), device(), any::<Option<String>>(), clock).prop_map(|(job, device, model, clock)| Identity {
        tried: job,
        device,
        model,
        clock,
    })
}

fn reason() -> impl Strategy<Value = Reason> {
    let cause = prop::sample::select(vec![
        Cause::Constraint,
        Cause::Compile,
        Cause::Runtime,
        Cause::Timeout,
        Cause::OutOfMemory,
        Cause::DeviceLost,
        Cause::WrongResult,
        Cause::Race,
        Cause::Impossible,
        Cause::NotResident,
        Cause::Crash,
    ]);
    (cause, any::<String>()).prop_map(|(cause, text)| Reason { cause, text })
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let finite = prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO;
    let samples = prop::collection::vec(finite, 0..20);
    let error = || prop::num::f64::ANY.prop_filter("NaN is not equal to itself", |x| !x.is_nan());
    let class = prop::option::of(prop::sample::select(PrecisionClass::all().collect::<Vec<_>>()));
    let checked = any::<Option<(u32, u32)>>().prop_map(|c| c.map(|(tokens, sequences)| Checked { tokens, sequences }));
    let counts = (any::<Option<(u32, u32)>>(), any::<Option<(u32, u32)>>(), checked);
    let whole = (any::<Option<String>>(), class, counts, any::<Option<String>>());
    let gate = (any::<bool>(), error(), error(), whole, any::<String>()).prop_map(
        |(passed, rms, max, (quality_hash, class, (certified, agreeing, checked), bits), detail)| Gate {
            passed,
            rms,
            max,
            quality_hash,
            class,
            certified,
            agreeing,
            checked,
            bits,
            detail,
        },
    );
    let timing = (samples.clone(), any::<[u32; 2]>(), prop::option::of(gate.clone()))
        .prop_map(|(samples_ns, [repeats, copies], gate)| Timing { samples_ns, repeats, copies, gate });
    prop_oneof![
        Just(Outcome::Intent),
        Just(Outcome::Done),
        Just(Outcome::Interrupted),
        timing.clone().prop_map(Outcome::Kernel),
        timing.prop_map(Outcome::Control),
        ([samples.clone(), samples], any::<[u32; 2]>()).prop_map(|(samples_ns, [repeats, copies])| Outcome::Pair {
            samples_ns,
            repeats,
            copies
        }),
        gate.prop_map(Outcome::Gate),
        reason().prop_map(Outcome::Failed),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let at = || -1e12..1e12f64;
    let cost =
        [at(), at(), at(), at()].prop_map(|[compile, check, timed, waited]| Cost { compile, check, timed, waited });
    let trial = (at(), any::<Option<String>>(), identity(), prop::option::of(cost), outcome())
        .prop_map(|(at, session, identity, cost, outcome)| Trial { at, session, identity, cost, outcome });
    let plan = (at(), device(), any::<u32>()).prop_map(|(at, device, chunk)| {
        let default = Plan::default_for(device, ModelShape::preset("0.1B").unwrap(), &Limits::webgpu());
        PlanRecord { at, plan: Box::new(Plan { prefill_chunk: chunk, ..default }) }
    });
    let session = (at(), any::<[String; 3]>(), device(), at(), prop::option::of(at())).prop_map(
        |(at, [version, model, default], device, budget, start)| SessionRecord {
            at,
            version,
            device,
            limits: Box::new(Limits::webgpu()),
            model,
            shape: ModelShape::preset("0.1B").unwrap(),
            default: PlanId(default),
            budget,
            start,
        },
    );
    let refused = (at(), device(), prop::option::of(site()), any::<String>(), any::<[u32; 2]>(), reason()).prop_map(
        |(at, device, site, variant, [configurations, of], reason)| Refused {
            at,
            device,
            site,
            variant,
            configurations,
            of,
            reason,
        },
    );
    let decision = (at(), any::<[String; 4]>()).prop_map(|(at, [session, stage, text, best])| Decision {
        at,
        session,
        stage,
        text,
        best: PlanId(best),
    });
    let alike = (at(), any::<[String; 3]>(), scenario()).prop_map(|(at, [session, plan, as_plan], scenario)| Alike {
        at,
        session,
        plan: PlanId(plan),
        scenario,
        as_plan: PlanId(as_plan),
    });
    prop_oneof![
        4 => trial.prop_map(|trial| Record::Trial(Box::new(trial))),
        1 => plan.prop_map(Record::Plan),
        1 => session.prop_map(Record::Session),
        1 => refused.prop_map(Record::Refused),
        1 => decision.prop_map(Record::Decision),
        1 => alike.prop_map(Record::Alike),
    ]
}

proptest! {
    #[test]
    fn every_record_comes_back_exactly(record in record()) {
        let (id, line) = encode(&record).unwrap();
        prop_assert!(!line.contains('\n') && line.starts_with(&Head.to_string()));
        let entry = decode(line.as_bytes()).unwrap();
        prop_assert_eq!(&entry.id, &id);
        prop_assert_eq!(&entry.key, &record.trial().map(|trial| trial.identity.key()));
        let bits = |r: &Record| match r {
            Record::Trial(trial) => trial.outcome.all_samples_ns().map(f64::to_bits).collect::<Vec<_>>(),
            _ => Vec::new(),
        };
        prop_assert_eq!(bits(&entry.record), bits(&record), "down to the sign of zero");
        prop_assert_eq!(entry.record, record);
    }

    #[test]
    fn every_changed_byte_is_noticed(record in record(), pick: prop::sample::Index, flip in 1..=255u8) {
        let mut line = encode(&record).unwrap().1.into_bytes();
        let at = pick.index(line.len());
        line[at] ^= flip;
        prop_assert!(decode(&line).is_err());
    }
}

/// A record whose every field is plain.
pub(in crate::ledger) fn plain() -> Record {
    let word = || "x".to_owned();
    let key = TuningKey { op: word(), k: 768, m: 96, formats: vec![Format::Q4_K], up_to_rows: 1 };
    let site = SiteId { key, rows: 1, segments: 1 };
    let kernel = Configured { variant: word(), config: [("WG".to_owned(), "64".to_owned())].into(), text: word() };
    let device =
        DeviceFingerprint { adapter: word(), vendor: 1, device: 2, driver: word(), backend: word(), wgpu: word() };
    let tried = Job::Kernel { site, kernel };
    let identity = Identity { tried, device, model: None, clock: Clock::Wall };
    let outcome = Outcome::Kernel(Timing { samples_ns: vec![1.5], repeats: 3, copies: 2, gate: None });
    Record::Trial(Box::new(Trial { at: 0.5, session: None, identity, cost: None, outcome }))
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
    assert!(matches!(edited(|s| s.replace("\"k\":768", "\"k\":769")), Err(LineError::Key { .. })));
    assert!(matches!(edited(|s| s.replace("\"samples_ns\":[1.5],", "")), Err(LineError::Json(_))));
}

#[test]
fn a_foreign_schema_is_named_before_other_faults() {
    for schema in [0, SCHEMA + 1] {
        let error = decode(format!("{OPENING}{schema},\"who\":\"knows\"}}").as_bytes()).unwrap_err();
        assert!(matches!(error, LineError::Schema { found } if found == schema), "{error}");
    }
}
