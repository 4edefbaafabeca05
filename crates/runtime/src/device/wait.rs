//! Waiting for a device: never without end, and what fails says what ran.

use super::Device;
use crate::RuntimeError;
use std::fmt::Display;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest wait for one submission: many times what a pass takes on any device that is worth its power.
const PATIENCE: Duration = Duration::from_secs(120);

/// The same where a CPU plays the device.
const CPU_PATIENCE: Duration = Duration::from_secs(3600);

/// What a device reports some time after it happened.
pub(super) enum Fault {
    OutOfMemory,
    Lost(String),
    Other(String),
}

/// How long to wait, and whether that was too short once.
pub(super) struct Patience {
    most: Duration,
    hangs: AtomicBool,
}

impl Patience {
    /// What was asked for, or what suits the device.
    pub(super) fn new(asked: Option<Duration>, is_cpu: bool) -> Self {
        let most = asked.unwrap_or(if is_cpu { CPU_PATIENCE } else { PATIENCE });
        Patience { most, hangs: AtomicBool::new(false) }
    }
}

impl Device {
    /// Waits until the device has done everything submitted; `during` says what that is.
    ///
    /// # Errors
    /// Whatever the device has failed at since the last call, or it does not end.
    pub(crate) fn wait(&self, during: impl Display) -> Result<(), RuntimeError> {
        self.wait_until(None, self.patience.most, &during)
    }

    /// As [`Device::wait`], for a submission.
    ///
    /// # Errors
    /// As [`Device::wait`].
    pub(crate) fn wait_for(&self, done: wgpu::SubmissionIndex, during: impl Display) -> Result<(), RuntimeError> {
        self.wait_until(Some(done), self.patience.most, &during)
    }

    /// As [`Device::wait_for`], for less time than a device is given otherwise.
    ///
    /// # Errors
    /// As [`Device::wait`].
    pub(crate) fn wait_at_most(
        &self,
        most: Duration,
        done: wgpu::SubmissionIndex,
        during: impl Display,
    ) -> Result<(), RuntimeError> {
        self.wait_until(Some(done), most.min(self.patience.most), &during)
    }

    fn wait_until(
        &self,
        done: Option<wgpu::SubmissionIndex>,
        most: Duration,
        during: &dyn Display,
    ) -> Result<(), RuntimeError> {
        // What hung once is looked at, and not waited for again.
        let hung = self.patience.hangs.load(Ordering::Acquire);
        let timeout = if hung { Duration::ZERO } else { most };
        let wait = wgpu::PollType::Wait { submission_index: done, timeout: Some(timeout) };
        // wgpu panics if the device is lost meanwhile.
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(wait)));
        self.check(during)?;
        match polled {
            Ok(Ok(_)) => {
                self.patience.hangs.store(false, Ordering::Release);
                Ok(())
            }
            Ok(Err(wgpu::PollError::Timeout)) => {
                if !self.patience.hangs.swap(true, Ordering::AcqRel) {
                    // wgpu waits without end for a queue that is let go of.
                    forget((self.device.clone(), self.queue.clone()));
                }
                Err(RuntimeError::TimedOut { during: during.to_string(), seconds: most.as_secs() })
            }
            Ok(Err(wrong)) => Err(RuntimeError::Device { during: during.to_string(), why: wrong.to_string() }),
            Err(_) => {
                Err(RuntimeError::DeviceLost { during: during.to_string(), why: "the driver said no more".into() })
            }
        }
    }

    /// Whatever the device has failed at since the last call. A device that was lost stays so.
    ///
    /// # Errors
    /// That.
    pub(crate) fn check(&self, during: impl Display) -> Result<(), RuntimeError> {
        let mut fault = self.fault.lock();
        let Some(what) = fault.take() else { return Ok(()) };
        let during = during.to_string();
        Err(match what {
            Fault::OutOfMemory => RuntimeError::OutOfMemory { during },
            Fault::Other(why) => RuntimeError::Device { during, why },
            Fault::Lost(why) => {
                *fault = Some(Fault::Lost(why.clone()));
                RuntimeError::DeviceLost { during, why }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, DeviceOptions, RuntimeError};
    use std::time::Duration;

    /// Long in all workgroups together, on a GPU as on two cores, and not endless, for the process must be able to end: software
    /// devices cut loops after 65,535 iterations. Squared, since what is linear in `x` is folded over many rounds by compilers.
    const LONG: &str = "
        @group(0) @binding(0) var<storage, read_write> y: array<u32>;

        @compute @workgroup_size(1)
        fn main(@builtin(workgroup_id) workgroup: vec3<u32>) {
            var x = y[0] + workgroup.x;
            for (var i = 0u; i < 60000u; i++) {
                x = x * x + 1013904223u;
            }
            if x == 0u {
                y[0] = x;
            }
        }
    ";

    fn submit_long_work(device: &Device) {
        let source = wgpu::ShaderSource::Wgsl(LONG.into());
        let module = device.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        let pipeline = device.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let y = device.storage("y", 16);
        let entries = [wgpu::BindGroupEntry { binding: 0, resource: y.as_entire_binding() }];
        let layout = &pipeline.get_bind_group_layout(0);
        let group =
            device.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries });
        let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(65_535, 1, 1);
        }
        device.queue.submit([encoder.finish()]);
    }

    #[test]
    fn a_timed_out_wait_names_the_running_work() {
        let patience = Some(Duration::from_millis(1));
        let device = Device::open_with(&DeviceOptions { patience, ..DeviceOptions::default() }).unwrap();
        submit_long_work(&device);
        let timed_out = device.wait(format_args!("running {}", "gemv/long")).unwrap_err();
        assert!(matches!(&timed_out, RuntimeError::TimedOut { during, .. } if during == "running gemv/long"));
        assert_eq!(timed_out.to_string().lines().count(), 1, "{timed_out}");
        assert!(matches!(device.wait("more"), Err(RuntimeError::TimedOut { .. })), "it still runs");
        // Once it has ended all is well again; on a busy machine even a copy may take longer than that patience.
        let y = device.storage("y", 16);
        let read = || {
            std::thread::sleep(Duration::from_millis(10));
            device.read(&y, 0, 16, "reading")
        };
        assert!((0..6000).any(|_| read().is_ok()));
    }

    #[test]
    fn a_lost_device_stays_lost() {
        let device = Device::open(None).unwrap();
        *device.fault.lock() = Some(super::Fault::Lost("of a test".to_owned()));
        for during in ["one", "another"] {
            let lost = device.check(during).unwrap_err();
            assert!(matches!(&lost, RuntimeError::DeviceLost { during: what, .. } if what == during), "{lost}");
        }
        *device.fault.lock() = Some(super::Fault::OutOfMemory);
        assert!(matches!(device.check("this"), Err(RuntimeError::OutOfMemory { .. })));
        device.check("that").unwrap();
    }
}
