//! A session that does everything for a long time: what it says stays what it says alone, and its memory stays.
//!
//! `cargo xtask soak --seconds 3600` runs it for an hour, on the adapter that `WGOOSE_SOAK_DEVICE` names; the tests do
//! for a hundred acts.

use crate::support::{Tiny, tiny};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use wgoose_session::sampling::SamplerOptions;
use wgoose_session::{
    Backend, BatchEvent, CancelToken, EmbedOptions, Ending, GenerateOptions, Generated, GenerationEvent, SequenceId,
    Session, SessionBatch, StateData,
};

const PROMPTS: [&[u8]; 4] = [b"A goose", b"x", b"far away, over the hills and far away", "Gr\u{fc}n".as_bytes()];
const SETTINGS: usize = 3;
/// Texts.
const TEXTS: usize = 5;

/// The results of each act alone, on a fresh session.
struct Alone {
    generated: BTreeMap<(usize, usize), (String, Generated)>,
    embedded: Vec<Vec<f32>>,
    /// By prompt: the state behind it, and the logits of a token after it.
    read: Vec<(StateData, Vec<f32>)>,
}

fn settings(index: usize) -> GenerateOptions {
    let sampling = |temperature, seed| SamplerOptions { temperature, seed, ..SamplerOptions::default() };
    match index {
        0 => GenerateOptions { sampling: sampling(0.0, 0), max_tokens: 6, ..GenerateOptions::default() },
        1 => GenerateOptions { sampling: sampling(1.0, 5), max_tokens: 17, ..GenerateOptions::default() },
        _ => GenerateOptions {
            sampling: sampling(1.0, 7),
            max_tokens: 30,
            stop_strings: vec!["e".to_owned()],
            ..GenerateOptions::default()
        },
    }
}

/// Ids of a text, of 1 to 90 tokens.
fn text(index: usize) -> Vec<u32> {
    (0..[1, 3, 17, 33, 90][index]).map(|i| 1 + (i * 37 + index as u32 * 11) % 300).collect()
}

fn open(model: &Tiny) -> Session {
    let device = std::env::var("WGOOSE_SOAK_DEVICE").ok();
    Session::builder().backend(Backend::Gpu).device(device).open(&model.path).unwrap()
}

fn generate(session: &mut Session, prompt: usize, setting: usize) -> (String, Generated) {
    session.reset().unwrap();
    let mut text = String::new();
    let generated = session.generate(PROMPTS[prompt], &settings(setting), &mut |event| {
        if let GenerationEvent::Text(piece) = event {
            text.push_str(piece);
        }
        ControlFlow::Continue(())
    });
    (text, generated.unwrap())
}

fn read(session: &mut Session, prompt: usize) -> StateData {
    let ids = session.tokenizer().unwrap().encode(PROMPTS[prompt]);
    session.reset().unwrap();
    session.prefill(&ids).unwrap();
    session.state().unwrap()
}

impl Alone {
    /// Of a session that does one after another.
    fn of(model: &Tiny) -> Alone {
        let mut session = open(model);
        let all = (0..PROMPTS.len()).flat_map(|p| (0..SETTINGS).map(move |s| (p, s)));
        Alone {
            generated: all.map(|(p, s)| ((p, s), generate(&mut session, p, s))).collect(),
            embedded: (0..TEXTS).map(|i| session.embed(&text(i), &EmbedOptions::default()).unwrap()).collect(),
            read: (0..PROMPTS.len()).map(|p| (read(&mut session, p), session.decode(9).unwrap())).collect(),
        }
    }
}

/// A batch, and what is not yet told of its sequences.
struct Joined {
    batch: SessionBatch,
    going: BTreeMap<SequenceId, ((usize, usize), String)>,
}

impl Joined {
    /// Sequences join, some steps are made, and one may leave in the middle of its text.
    fn advance(&mut self, rng: &mut Rng, alone: &Alone) {
        while self.batch.room() > 0 && rng.bool() {
            let what = (rng.usize(..PROMPTS.len()), rng.usize(..SETTINGS));
            let id = self.batch.join(PROMPTS[what.0], &settings(what.1)).unwrap();
            self.going.insert(id, (what, String::new()));
        }
        for _ in 0..rng.usize(..8) {
            for event in self.batch.step().unwrap() {
                match event {
                    BatchEvent::Admitted(..) | BatchEvent::State(..) | BatchEvent::Logprobs(..) => {}
                    BatchEvent::Failed(id, why) => panic!("{id}: {why}"),
                    BatchEvent::Text(id, text) => self.going.get_mut(&id).unwrap().1.push_str(&text),
                    BatchEvent::Ended(id, generated) => {
                        let (what, text) = self.going.remove(&id).unwrap();
                        assert_eq!((text, generated), alone.generated[&what], "{what:?} in a batch");
                    }
                }
            }
        }
        let leaves = self.batch.sequences().next().filter(|_| rng.u32(..4) == 0);
        if let Some(id) = leaves {
            let (what, _) = self.going.remove(&id).unwrap();
            let (_, generated) = self.batch.leave(id).unwrap();
            assert_eq!(generated.ending, Ending::Caller);
            assert_eq!(generated.tokens, alone.generated[&what].1.tokens[..generated.tokens.len()], "{what:?} left");
        }
    }
}

/// One thing that a session does, and that what comes of it is as alone.
fn act(session: &mut Session, joined: &mut Joined, folder: &Path, rng: &mut Rng, alone: &Alone) {
    match rng.u32(..4) {
        0 => {
            let what = (rng.usize(..PROMPTS.len()), rng.usize(..SETTINGS));
            assert_eq!(generate(session, what.0, what.1), alone.generated[&what], "{what:?}");
        }
        1 => {
            let which: Vec<usize> = (0..rng.usize(1..9)).map(|_| rng.usize(..TEXTS)).collect();
            let texts: Vec<Vec<u32>> = which.iter().map(|i| text(*i)).collect();
            let embedded = session.embed_batch(&texts, &EmbedOptions::default(), &CancelToken::default()).unwrap();
            for (i, got) in which.iter().zip(embedded) {
                assert_eq!(got, alone.embedded[*i], "text {i} among {which:?}");
            }
        }
        2 => {
            let (first, second) = (rng.usize(..PROMPTS.len()), rng.usize(..PROMPTS.len()));
            assert_eq!(read(session, first), alone.read[first].0, "the state after prompt {first}");
            let path = folder.join(format!("state-{first}"));
            session.save_state(&path).unwrap();
            read(session, second);
            session.load_state(&path).unwrap();
            assert_eq!(session.decode(9).unwrap(), alone.read[first].1, "after a state from a file");
        }
        _ => joined.advance(rng, alone),
    }
}

/// Bytes of this process that are no file's; `None` where the system does not say.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// How far a run is.
#[derive(Clone, Copy)]
enum Length {
    Time(Duration),
    Acts(u32),
}

impl Length {
    /// As long as `WGOOSE_SOAK_SECONDS` says, or as many acts as show a leak.
    fn of_this_run() -> Self {
        let seconds = std::env::var("WGOOSE_SOAK_SECONDS").ok();
        seconds.map_or(Length::Acts(3 * WARM_UP), |seconds| Length::Time(Duration::from_secs(seconds.parse().unwrap())))
    }

    /// The share that is over.
    fn share(self, acts: u32, time: Duration) -> f64 {
        match self {
            Length::Time(whole) => time.div_duration_f64(whole),
            Length::Acts(whole) => f64::from(acts) / f64::from(whole),
        }
    }
}

/// Acts after which every pipeline and buffer was needed once.
const WARM_UP: u32 = 40;

/// Set in a process that runs nothing but the soak: other tests in it would have memory of their own.
const ALONE: &str = "WGOOSE_SOAK_ALONE";

#[test]
fn a_long_session_keeps_its_memory_and_results() {
    if std::env::var_os(ALONE).is_some() {
        return soak();
    }
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "soak::a_long_session_keeps_its_memory_and_results", "--nocapture"]).env(ALONE, "1");
    assert!(alone.status().unwrap().success());
}

fn soak() {
    /// Most bytes that an allocator may keep of freed memory.
    const SLACK: u64 = 24 << 20;
    /// How often memory is said.
    const PARTS: f64 = 30.0;
    let seed = std::env::var("WGOOSE_SOAK_SEED").map_or(1, |seed| seed.parse().unwrap());
    let model = tiny(3);
    let alone = Alone::of(&model);
    let mut session = open(&model);
    let mut joined = Joined { batch: session.batch(5).unwrap(), going: BTreeMap::new() };
    let (mut rng, start, length) = (Rng::with_seed(seed), Instant::now(), Length::of_this_run());
    let (mut acts, mut before, mut said) = (0, None, 0.0);
    let device = |session: &Session| session.load_report().device.map(|memory| memory.used);
    // The largest pass of all.
    session.embed_batch(&[(); 8].map(|()| text(TEXTS - 1)), &EmbedOptions::default(), &CancelToken::default()).unwrap();
    let mut share = 0.0;
    while share < 1.0 {
        act(&mut session, &mut joined, model.folder.path(), &mut rng, &alone);
        acts += 1;
        share = length.share(acts, start.elapsed());
        // A run that is cut off has said something.
        let parts = (share * PARTS).floor();
        if parts > said {
            said = parts;
            println!("{parts}/{PARTS}: {acts} acts; {:?}, {:?}", resident(), device(&session));
        }
        if before.is_none() && share * 3.0 >= 1.0 && acts >= WARM_UP {
            before = Some((resident(), device(&session)));
        }
    }
    let after = (resident(), device(&session));
    let time = start.elapsed();
    println!("seed {seed}: {acts} acts in {time:?}; bytes of the process and the device: {before:?}, then {after:?}");
    let before = before.expect("a run this short says nothing of memory: WGOOSE_SOAK_SECONDS takes more seconds");
    for (whose, before, after) in [("process", before.0, after.0), ("device", before.1, after.1)] {
        let grew = after.zip(before).map_or(0, |(after, before)| after.saturating_sub(before));
        assert!(grew < SLACK, "the memory of the {whose} grew by {grew} bytes: {before:?}, then {after:?}");
    }
}
