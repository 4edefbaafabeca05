//! The records of one device and model in ledgers, by the time that sweeps had spent.

use std::collections::{BTreeMap, HashMap};
use wgoose_kernels::DeviceFingerprint;
use wgoose_measure::ledger::{Decision, Record, Records, SessionRecord, Trial};

/// What was tuned, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The device.
    pub device: DeviceFingerprint,
    /// Content id of the model, and its layers and width, where that is known.
    pub model: Option<String>,
    /// Layers and width of the model, where they are known.
    pub shape: Option<(u32, u32)>,
    /// Version of the program that measured, where it is known.
    pub version: Option<String>,
    /// When it began, in seconds since 1970 (UTC).
    pub began: f64,
}

/// The kind of a job that times a kernel alone.
pub(super) const KERNEL: &str = "kernel";

/// Jobs of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// The kind.
    pub kind: &'static str,
    /// How many ended.
    pub jobs: usize,
    /// What they took, in seconds; 0 where the ledger does not say.
    pub seconds: f64,
}

/// A choice that a sweep made.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// Seconds of the sweeps until then.
    pub at: f64,
    /// The stage.
    pub stage: String,
    /// What was decided.
    pub text: String,
    /// The plan that was best then.
    pub best: String,
}

/// The records of one device and model, and the time that was spent until each.
pub(super) struct View<'a> {
    pub(super) records: &'a Records,
    /// The sweep that began last.
    pub(super) session: Option<&'a SessionRecord>,
    device: Option<&'a DeviceFingerprint>,
    model: Option<&'a String>,
    /// Trials of the device and model.
    pub(super) trials: Vec<&'a Trial>,
    /// When each sweep began, and the seconds of those before it.
    sweeps: HashMap<&'a str, (f64, f64)>,
    /// When the first trial was.
    began: f64,
    /// Trials of other devices or models.
    pub(super) others: usize,
}

impl<'a> View<'a> {
    pub(super) fn of(records: &'a Records) -> Self {
        let session = records.newest_session();
        let newest = records.trials().last().map(|(_, trial)| trial);
        let device = session.map(|s| &s.device).or(newest.map(|trial| &trial.identity.device));
        let with_model = |(_, trial): (&str, &'a Trial)| trial.identity.model.as_ref();
        let model = session.map(|s| &s.model).or_else(|| records.trials().filter_map(with_model).last());
        let is_here = |trial: &Trial| {
            device == Some(&trial.identity.device) && trial.identity.model.as_ref().is_none_or(|own| model == Some(own))
        };
        let mut trials: Vec<&Trial> = records.trials().map(|(_, trial)| trial).filter(|trial| is_here(trial)).collect();
        trials.sort_by(|a, b| a.at.total_cmp(&b.at));
        let others = records.trials().count() - trials.len();
        let began = session.map(|session| session.at).or(trials.first().map(|trial| trial.at)).unwrap_or(0.0);
        let mut view = View { records, session, device, model, trials, sweeps: HashMap::new(), began, others };
        view.sweeps = view.sweeps();
        view
    }

    /// The sweeps of the device and model, one after the other, without the time between them.
    fn sweeps(&self) -> HashMap<&'a str, (f64, f64)> {
        let is_here =
            |session: &SessionRecord| self.device == Some(&session.device) && self.model == Some(&session.model);
        let mut begun: Vec<(f64, &str)> = Vec::new();
        for entry in self.records.as_slice() {
            if let Record::Session(session) = &entry.record
                && is_here(session)
            {
                begun.push((session.at, entry.id.as_str()));
            }
        }
        begun.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut last: HashMap<&str, f64> = HashMap::new();
        for trial in &self.trials {
            if let Some(session) = &trial.session {
                let last = last.entry(session.as_str()).or_insert(trial.at);
                *last = last.max(trial.at);
            }
        }
        let (mut sweeps, mut before) = (HashMap::new(), 0.0);
        for (at, id) in begun {
            sweeps.insert(id, (at, before));
            before += last.get(id).map_or(0.0, |last| (last - at).max(0.0));
        }
        sweeps
    }

    /// Seconds that sweeps had spent at a moment of one of them.
    pub(super) fn spent(&self, session: Option<&str>, at: f64) -> f64 {
        let (began, before) = session.and_then(|id| self.sweeps.get(id)).copied().unwrap_or((self.began, 0.0));
        (before + at - began).max(0.0)
    }

    /// Seconds that were spent when a trial ended.
    pub(super) fn spent_at(&self, trial: &Trial) -> f64 {
        self.spent(trial.session.as_deref(), trial.at)
    }

    /// Trials that say what came of them.
    pub(super) fn ended(&self) -> impl Iterator<Item = &'a Trial> {
        self.trials.iter().copied().filter(|trial| trial.outcome.is_known())
    }

    /// Whether a record of a device is of this one.
    pub(super) fn is_device(&self, device: &DeviceFingerprint) -> bool {
        self.device == Some(device)
    }

    /// The choices of the sweeps of this device and model, oldest first.
    pub(super) fn decisions(&self) -> impl Iterator<Item = &'a Decision> {
        self.records.as_slice().iter().filter_map(|entry| match &entry.record {
            Record::Decision(decision) if self.sweeps.contains_key(decision.session.as_str()) => Some(decision),
            _ => None,
        })
    }

    pub(super) fn decided(&self, decision: &Decision) -> Decided {
        let Decision { at, session, stage, text, best } = decision;
        let at = self.spent(Some(session), *at);
        Decided { at, stage: stage.clone(), text: text.clone(), best: best.to_string() }
    }

    pub(super) fn subject(&self) -> Option<Subject> {
        Some(Subject {
            device: self.device?.clone(),
            model: self.model.cloned(),
            shape: self.session.map(|session| (session.shape.layers, session.shape.width)),
            version: self.session.map(|session| session.version.clone()),
            began: self.began,
        })
    }

    /// Jobs that ended, by kind, the costliest first.
    pub(super) fn searched(&self) -> Vec<Searched> {
        let mut kinds: BTreeMap<&'static str, (usize, f64)> = BTreeMap::new();
        for trial in self.ended() {
            let entry = kinds.entry(trial.identity.tried.name()).or_default();
            entry.0 += 1;
            entry.1 += trial.cost.map_or(0.0, |cost| cost.total());
        }
        let mut all: Vec<Searched> =
            kinds.into_iter().map(|(kind, (jobs, seconds))| Searched { kind, jobs, seconds }).collect();
        all.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(b.jobs.cmp(&a.jobs)));
        all
    }
}
