//! A report as data: what the records of one device and model say.

use super::course::Course;
use super::failures::{Failed, failures};
use super::left_out::LeftOut;
use super::roof::Ceiling;
use super::sites::{Site, sites};
use super::view::{Decided, Searched, Subject, View};
use wgoose_kernels::Catalogue;
use wgoose_measure::derive::{DeriveError, Derived, Policy, derive};
use wgoose_measure::ledger::Records;
use wgoose_measure::objective::Objective;

/// What ledgers say of the device and model of their newest sweep.
#[derive(Debug)]
pub struct LedgerReport {
    /// Of what; `None` where nothing was measured.
    pub subject: Option<Subject>,
    /// What the plan is to be good at.
    pub objective: Objective,
    /// The plan that follows, or why none does.
    pub derived: Result<Derived, DeriveError>,
    /// What was run, by kind.
    pub searched: Vec<Searched>,
    /// What was not run.
    pub left_out: LeftOut,
    /// How the search went.
    pub course: Course,
    /// The kernels that were timed alone; decoding first, the costliest first.
    pub sites: Vec<Site>,
    /// What failed, in order.
    pub failures: Vec<Failed>,
    /// What was decided, in order.
    pub decisions: Vec<Decided>,
    /// Trials of other devices or models, which are left out.
    pub others: usize,
}

impl LedgerReport {
    /// Gathers a report. Kernels are held against `roofline`, or, where it is not known, against the most that any of
    /// them reached.
    pub fn gather(
        records: &Records,
        catalogue: &Catalogue,
        objective: &Objective,
        policy: &Policy,
        roofline: Option<Ceiling>,
    ) -> LedgerReport {
        let view = View::of(records);
        let derived = derive(records, catalogue, objective, policy);
        let plan = derived.as_ref().ok().map(|derived| &derived.plan);
        let gains = derived.as_ref().map_or(&[][..], |derived| &derived.gains);
        let sites = sites(&view, catalogue, plan, roofline);
        LedgerReport {
            subject: view.subject(),
            objective: objective.clone(),
            searched: view.searched(),
            left_out: LeftOut::of(&view, &sites),
            course: Course::of(&view, objective, gains),
            failures: failures(&view),
            decisions: view.decisions().map(|decision| view.decided(decision)).collect(),
            others: view.others,
            sites,
            derived,
        }
    }
}
