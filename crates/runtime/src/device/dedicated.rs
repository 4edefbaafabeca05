//! Large buffers in memory that is dedicated to them, on Vulkan.
//!
//! wgpu asks for memory that any buffer may share. NVIDIA's driver takes 22 ms to allocate one gigabyte of that, 20 ms
//! to free it, and holds up every submission meanwhile; memory dedicated to one buffer
//! (`VkMemoryDedicatedAllocateInfo`,
//! Vulkan 1.1) takes 1.5 ms and 1 ms (H200, driver 580.159.04, `optimization_plan/model_loading.md`).

use super::Device;
use ash::vk;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Fewest bytes of a buffer with dedicated memory: wgpu gives smaller ones a part of a block of memory.
const LEAST_BYTES: u64 = 8 << 20;

/// Memory that only some buffers may have, or that needs a feature.
const SPECIAL: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::LAZILY_ALLOCATED.as_raw()
        | vk::MemoryPropertyFlags::PROTECTED.as_raw()
        | vk::MemoryPropertyFlags::DEVICE_COHERENT_AMD.as_raw()
        | vk::MemoryPropertyFlags::DEVICE_UNCACHED_AMD.as_raw(),
);

/// The usages that [`Device::buffer`] asks for, as Vulkan has them; `None` if there is another one.
fn vulkan_usage(usage: wgpu::BufferUsages) -> Option<vk::BufferUsageFlags> {
    let pairs = [
        (wgpu::BufferUsages::COPY_SRC, vk::BufferUsageFlags::TRANSFER_SRC),
        (wgpu::BufferUsages::COPY_DST, vk::BufferUsageFlags::TRANSFER_DST),
        (wgpu::BufferUsages::STORAGE, vk::BufferUsageFlags::STORAGE_BUFFER),
        (wgpu::BufferUsages::UNIFORM, vk::BufferUsageFlags::UNIFORM_BUFFER),
    ];
    let known = pairs.iter().fold(wgpu::BufferUsages::empty(), |known, (usage, _)| known | *usage);
    let flags = pairs.iter().filter(|(wgpu, _)| usage.contains(*wgpu)).map(|(_, vulkan)| *vulkan);
    known.contains(usage).then(|| flags.fold(vk::BufferUsageFlags::empty(), |all, flag| all | flag))
}

impl Device {
    /// A buffer of zeros with dedicated memory; `None` where wgpu has to make it: a small one, one beyond the device's
    /// limit, another back end than Vulkan 1.1, or a driver that refuses, whose reason wgpu then reports.
    pub(super) fn dedicated(&self, descriptor: &wgpu::BufferDescriptor<'_>) -> Option<wgpu::Buffer> {
        if !(LEAST_BYTES..=self.device.limits().max_buffer_size).contains(&descriptor.size) {
            return None;
        }
        let buffer = self.dedicated_uninitialised(descriptor)?;
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.clear_buffer(&buffer, 0, None);
        self.queue.submit([encoder.finish()]);
        Some(buffer)
    }

    /// The same before it is cleared.
    fn dedicated_uninitialised(&self, descriptor: &wgpu::BufferDescriptor<'_>) -> Option<wgpu::Buffer> {
        let usage = vulkan_usage(descriptor.usage)?;
        // SAFETY: every handle is of this device, which the guard of `as_hal` keeps alive here and wgpu keeps alive
        // until the callback below has run. The buffer has the size and the usages of its descriptor, and memory of a
        // type and of the size that it requires, bound once. Buffer and memory are released where a later call fails.
        // wgpu
        // runs the callback once, when neither it nor the device needs the buffer any more. The buffer counts as
        // initialised; `Device::dedicated` clears it before anybody else has it.
        #[allow(unsafe_code)]
        unsafe {
            let hal = self.device.as_hal::<wgpu::hal::api::Vulkan>()?;
            let (instance, physical) = (hal.shared_instance().raw_instance(), hal.raw_physical_device());
            if instance.get_physical_device_properties(physical).api_version < vk::API_VERSION_1_1 {
                return None;
            }
            let vulkan = hal.raw_device().clone();
            let buffer =
                vulkan.create_buffer(&vk::BufferCreateInfo::default().size(descriptor.size).usage(usage), None).ok()?;
            let required = vulkan.get_buffer_memory_requirements(buffer);
            let memories = instance.get_physical_device_memory_properties(physical);
            let is_suitable = |(number, memory): &(usize, &vk::MemoryType)| {
                required.memory_type_bits & (1 << number) != 0
                    && memory.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)
                    && !memory.property_flags.intersects(SPECIAL)
            };
            let memory_type = memories.memory_types_as_slice().iter().enumerate().find(is_suitable);
            let memory = memory_type.and_then(|(number, _)| {
                let mut dedicated = vk::MemoryDedicatedAllocateInfo::default().buffer(buffer);
                let order = vk::MemoryAllocateInfo::default()
                    .allocation_size(required.size)
                    .memory_type_index(number as u32)
                    .push_next(&mut dedicated);
                let memory = vulkan.allocate_memory(&order, None).ok()?;
                let is_bound = vulkan.bind_buffer_memory(buffer, memory, 0).is_ok();
                if !is_bound {
                    vulkan.free_memory(memory, None);
                }
                is_bound.then_some(memory)
            });
            let Some(memory) = memory else {
                vulkan.destroy_buffer(buffer, None);
                return None;
            };
            let in_use = Arc::clone(&self.dedicated_bytes);
            in_use.fetch_add(required.size, Ordering::Relaxed);
            let free = Box::new(move || {
                vulkan.destroy_buffer(buffer, None);
                vulkan.free_memory(memory, None);
                in_use.fetch_sub(required.size, Ordering::Relaxed);
            });
            let raw = wgpu::hal::vulkan::Buffer::from_raw_externally_owned(buffer, free);
            Some(self.device.create_buffer_from_hal::<wgpu::hal::api::Vulkan>(raw, descriptor))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device, where it is one of Vulkan.
    fn vulkan() -> Option<Arc<Device>> {
        let device = Device::open(None).unwrap();
        (device.fingerprint().backend == "vulkan").then_some(device)
    }

    #[test]
    fn a_large_buffer_is_zero_and_counted_until_it_is_dropped() {
        let Some(device) = vulkan() else { return };
        let before = device.memory().unwrap();
        let small = device.storage("small", LEAST_BYTES - 16);
        assert_eq!(device.dedicated_bytes.load(Ordering::Relaxed), 0);
        let large = device.storage("large", LEAST_BYTES + 16);
        assert!(device.dedicated_bytes.load(Ordering::Relaxed) >= LEAST_BYTES + 16);
        let now = device.memory().unwrap();
        assert!(now.used >= before.used + 2 * LEAST_BYTES && now.reserved >= now.used, "{before:?}, {now:?}");
        for buffer in [&small, &large] {
            let bytes = device.read(buffer, 0, buffer.size(), "reading a new buffer").unwrap();
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
        device.queue.write_buffer(&large, LEAST_BYTES, &[7; 16]);
        assert_eq!(device.read(&large, LEAST_BYTES - 16, 32, "reading").unwrap(), [[0; 16], [7; 16]].concat());
        drop(large);
        device.wait("freeing").unwrap();
        assert_eq!(device.dedicated_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_allocation_beyond_the_memory_is_an_error_and_no_crash() {
        let Some(device) = vulkan() else { return };
        let limit = device.limits().buffer.min(device.limits().storage_binding);
        // Never written but for the zeros: the system may promise more than it has.
        let many: Vec<wgpu::Buffer> = (0..2).map(|_| device.storage("many", limit.min(64 << 20))).collect();
        assert!(device.check("allocating").is_ok());
        drop(many);
        let too_large = device.storage("too large", 1 << 60);
        assert!(device.check("allocating").is_err());
        drop(too_large);
    }
}
