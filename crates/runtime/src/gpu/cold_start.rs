//! A pass whose weights or kernels are not all there yet: kernels compile on other threads while weights arrive, and
//! each group of dispatches is submitted as soon as it has what it needs.

use super::GpuExecutor;
use super::step::{Step, missing};
use crate::residency::{Job, Placed, Repacker, RowShard, Upload, Weights, cut};
use crate::timeline::Track;
use crate::{DeviceMemory, RuntimeError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use wgoose_kernels::Kernel;

/// How long to wait where nothing has arrived that may be copied.
const PAUSE: Duration = Duration::from_micros(50);

impl GpuExecutor {
    /// Compiles, uploads and binds what a step lacks, and, if asked, submits its dispatches as they become possible.
    ///
    /// # Errors
    /// A kernel does not compile, the file cannot be read any more, or the device fails.
    pub(super) fn cold_start(&self, step: &mut Step, compute: bool) -> Result<(), RuntimeError> {
        let mut weights = self.shared.weights.lock();
        let streams = step.groups.iter().flat_map(|g| &g.weights).any(|p| p.ring.is_some());
        let mut todo = missing(&step.groups, &weights, compute);
        // As the file has its pages; where weights take turns in the ring, as the pass needs them.
        todo.sort_by_key(|(w, group)| {
            (if streams { *group } else { 0 }, self.shared.model.tensor(w.weight).file_offset(), w.index)
        });
        let jobs = cut(&self.shared.model, &todo, weights.staging_size.slot_bytes, streams);
        let largest = jobs.iter().map(Job::bytes).max().unwrap_or(0);
        let mut staging = match jobs.is_empty() {
            true => None,
            false => Some(weights.take_staging(jobs.len(), largest)?),
        };
        let kernels: Vec<Kernel> = if step.ready { Vec::new() } else { step.recording.kernels.clone() };
        let shards = todo.iter().map(|(w, _)| *w);
        let repacker = Repacker::new(
            &self.shared.device,
            &mut self.shared.pipelines.lock(),
            &self.planner.catalogue,
            shards,
            largest,
        )?;
        let over = AtomicBool::new(false);
        let begun = Instant::now();
        let bytes: u64 = todo.iter().map(|(w, _)| w.bytes).sum();
        let copied: Arc<OnceLock<Instant>> = Arc::default();

        std::thread::scope(|scope| {
            // Ends the watch whichever way this scope is left.
            let _over = SetOnDrop(&over);
            if self.shared.device.timeline().is_on() {
                scope.spawn(|| self.watch(&over));
            }
            let kernels = &kernels;
            let compiling =
                scope.spawn(move || self.shared.pipelines.lock().compile(&kernels.iter().collect::<Vec<_>>()));
            let workers = weights.staging_size.workers;
            let mut arrivals = Arrivals::new(step, &jobs, &repacker);
            let mut upload = staging
                .as_mut()
                .map(|s| Upload::start(scope, &self.shared.device, &self.shared.model, s, jobs, workers));
            let mut pump = |arrivals: &mut Arrivals<'_>, weights: &mut Weights, submitted: usize| {
                let Some(upload) = &mut upload else { return Ok(()) };
                upload.advance()?;
                if !arrivals.copy(upload, weights, submitted)? {
                    std::thread::sleep(PAUSE);
                } else if upload.is_done() {
                    let copied = Arc::clone(&copied);
                    self.shared.device.queue.on_submitted_work_done(move || {
                        let _ = copied.set(Instant::now());
                    });
                }
                Ok::<(), RuntimeError>(())
            };
            while arrivals.left() > 0 && !compiling.is_finished() {
                pump(&mut arrivals, &mut weights, 0)?;
            }
            match compiling.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
            for number in 0..step.groups.len() {
                while arrivals.of_group[number] > 0 {
                    pump(&mut arrivals, &mut weights, number)?;
                }
                let _span = self.shared.device.timeline().span(Track::Submit, format!("group {number}"));
                step.bind(number, self, &mut weights, &self.shared.pipelines.lock())?;
                if compute {
                    let begun = Instant::now();
                    let mut encoder =
                        self.shared.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                    step.encode(number..number + 1, &mut encoder);
                    self.shared.device.queue.submit([encoder.finish()]);
                    self.note_compute(number, begun);
                }
            }
            self.shared.device.check("running a pass")
        })?;
        if let Some(staging) = staging {
            self.shared.device.wait("uploading weights")?;
            self.shared.model.check_unchanged()?;
            weights.taken.staging = weights.taken.staging.max(staging.bytes());
            let most = |a: DeviceMemory, b: DeviceMemory| DeviceMemory {
                used: a.used.max(b.used),
                reserved: a.reserved.max(b.reserved),
            };
            weights.taken.device =
                self.shared.device.memory().map(|now| weights.taken.device.map_or(now, |was| most(was, now)));
            weights.keep_staging(staging);
            for (shard, _) in todo.iter().filter(|(w, _)| self.shared.model.tensor(w.weight).file_range().is_none()) {
                self.shared.model.release(shard.weight);
            }
            let seconds = copied.get().map_or(begun.elapsed(), |at| at.duration_since(begun)).as_secs_f64();
            weights.taken.bytes += bytes;
            weights.taken.seconds += seconds;
            weights.fill(todo.into_iter().map(|(w, _)| w));
        }
        step.ready = !streams && missing(&step.groups, &weights, true).is_empty();
        Ok(())
    }

    /// Records when a group was submitted and when the device was seen to be done with it.
    fn note_compute(&self, number: usize, begun: Instant) {
        if self.shared.device.timeline().is_on() {
            let timeline = self.shared.device.timeline().clone();
            self.shared.device.queue.on_submitted_work_done(move || {
                timeline.device_span(Track::Compute, format!("group {number}"), begun, Instant::now());
            });
        }
    }

    /// Looks after the device so that [`GpuExecutor::note_compute`] is told in time.
    fn watch(&self, over: &AtomicBool) {
        while !over.load(Ordering::Acquire) {
            // A failure is seen where results are waited for.
            let _ = self.shared.device.device.poll(wgpu::PollType::Poll);
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// What has not been copied yet.
struct Arrivals<'a> {
    /// Parts that each group waits for.
    of_group: Vec<usize>,
    /// For each group, the one whose dispatches must be submitted before its weights are copied.
    after: Vec<Option<usize>>,
    places: HashMap<(RowShard, usize), Placed>,
    repacker: &'a Repacker<'a>,
}

impl<'a> Arrivals<'a> {
    fn new(step: &Step, jobs: &[Job], repacker: &'a Repacker<'a>) -> Self {
        let mut of_group = vec![0; step.groups.len()];
        for part in jobs.iter().flat_map(|j| &j.parts) {
            of_group[part.group] += 1;
        }
        let groups = step.groups.iter().enumerate();
        let places = groups.flat_map(|(i, g)| g.weights.iter().map(move |p| ((p.shard, i), *p))).collect();
        Arrivals { of_group, after: step.groups.iter().map(|g| g.after).collect(), places, repacker }
    }

    fn left(&self) -> usize {
        self.of_group.iter().sum()
    }

    /// Copies what has arrived and may be copied while the first `submitted` groups are submitted; says whether that was
    /// anything.
    fn copy(&mut self, upload: &mut Upload<'_>, weights: &mut Weights, submitted: usize) -> Result<bool, RuntimeError> {
        let may = |job: &Job| job.parts.iter().all(|p| self.after[p.group].is_none_or(|a| a < submitted));
        let (places, repacker) = (&self.places, self.repacker);
        let done = upload.copy(&may, &mut |job, from, encoder| {
            for part in &job.parts {
                let range = weights.layout.range(&places[&(part.shard, part.group)]);
                repacker.encode(part, from, &weights.buffer(range.buffer)?, range.offset, encoder)?;
            }
            Ok(())
        })?;
        for part in done.iter().flat_map(|j| &j.parts) {
            self.of_group[part.group] -= 1;
        }
        Ok(!done.is_empty())
    }
}
