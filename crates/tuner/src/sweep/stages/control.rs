//! The control kernel, which never changes: by its time it is seen whether the machine did.

use crate::sweep::task::Task;
use crate::sweep::trials::Trials;
use crate::sweep::{Note, SweepError};
use wgoose_kernels::plan::default_kernel;
use wgoose_measure::job::Configured;
use wgoose_measure::space::InstanceGroup;
use wgoose_measure::stats::drift::{self, Block};

/// The default kernel of the largest instance of decoding; `None` where decoding has none.
pub(super) struct Control(Option<(InstanceGroup, Configured)>);

impl Control {
    /// That of a search.
    pub(super) fn of(task: Task<'_>) -> Result<Self, SweepError> {
        let default = &task.problem.default;
        let largest = task.decode_sites(default).into_iter().max_by_key(|site| site.instance.bytes());
        let Some(site) = largest else { return Ok(Control(None)) };
        let (limits, catalogue) = (&task.problem.limits, &task.options.catalogue);
        let (variant, config, kernel) = default_kernel(&site.instance, default.precision, limits, catalogue)?;
        let (name, config) = (variant.name().to_owned(), variant.spell(&config));
        let kernel = Configured { variant: name, config, text: kernel.hash.to_string() };
        Ok(Control(Some((site, kernel))))
    }

    /// Times it.
    pub(super) fn time(&self, trials: &mut Trials<'_>) -> Result<Vec<f64>, SweepError> {
        let Some((site, kernel)) = &self.0 else { return Ok(Vec::new()) };
        Ok(trials.jobs().control(site, kernel.clone())?)
    }

    /// Times it again, and says by how much the speed of the device has changed.
    pub(super) fn report_drift(&self, trials: &mut Trials<'_>, before: &[f64]) -> Result<(), SweepError> {
        let after = self.time(trials)?;
        match drift::judge(before, &after, drift::TOLERANCE) {
            Some(Block::Void { drift }) => trials.note(Note::Drift(drift)),
            _ => Ok(()),
        }
    }
}
