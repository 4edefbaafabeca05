//! web-rwkv-gguf, commit a60d02d: each test passes once its fault is mended; then drop its `should_panic`.

use half::f16;
use std::array;
use web_rwkv::context::{Context, ContextBuilder, InstanceExt};
use web_rwkv::runtime::gguf::GgufReader;
use web_rwkv::runtime::loader::Reader;
use web_rwkv::tensor::TensorGpu;
use web_rwkv::tensor::kind::ReadWrite;
use web_rwkv::tensor::ops::{Activation, TensorOp};
use web_rwkv::tensor::shape::Shape;
use web_rwkv::wgpu::{Backends, Instance, InstanceDescriptor, PowerPreference};
use wgoose_web_rwkv_gguf_reports as file;

/// ggml's number of Q4_0.
const Q4_0: u32 = 2;

/// The first weights of a row of Q4_0 with these nibbles and the scale 1.
fn read(alignment: u32, nibbles: [u8; 16]) -> Vec<f32> {
    let blocks = [&f16::ONE.to_le_bytes()[..], &nibbles].concat();
    let bytes = file::gguf("general.alignment", &file::number(alignment), Q4_0, 32, &blocks);
    let reader = GgufReader::new(&bytes).unwrap();
    let (_, _, weights) = reader.tensor("emb.weight").unwrap();
    weights.chunks(2).map(|bytes| f16::from_le_bytes([bytes[0], bytes[1]]).to_f32()).collect()
}

/// ggml: the low nibbles of a block are its first 16 weights, the high nibbles the other 16.
#[test]
#[should_panic(expected = "Q4_0 in another order")]
fn q4_0_has_the_order_of_ggml() {
    let nibbles: [u8; 16] = array::from_fn(|i| i as u8 | (15 - i as u8) << 4);
    let wanted: Vec<f32> = (0..16).chain((0..16).rev()).map(|nibble| nibble as f32 - 8.0).collect();
    assert_eq!(read(32, nibbles), wanted, "Q4_0 in another order");
}

#[test]
#[should_panic(expected = "attempt to calculate the remainder with a divisor of zero")]
fn an_alignment_of_0_is_an_error() {
    let bytes = file::gguf("general.alignment", &file::number(0), Q4_0, 32, &[0; 18]);
    assert!(GgufReader::new(&bytes).is_err());
}

#[test]
#[should_panic(expected = "capacity overflow")]
fn an_array_longer_than_its_file_is_an_error() {
    let bytes = file::gguf("tokenizer.ggml.tokens", &file::array(u64::MAX), Q4_0, 32, &[0; 18]);
    assert!(GgufReader::new(&bytes).is_err());
}

async fn context() -> Context {
    let instance = Instance::new(&InstanceDescriptor { backends: Backends::VULKAN, ..Default::default() });
    let adapter = instance.adapter(PowerPreference::HighPerformance).await.unwrap();
    ContextBuilder::new(adapter).build().await.unwrap()
}

/// The products of a vector of ones with four rows of 128 blocks: the scale 1, so many bytes between scale and weights,
/// and 32 ones.
fn products(gap: usize) -> Vec<f32> {
    let block = [&f16::ONE.to_le_bytes()[..], &vec![0; gap], &[1; 32]].concat();
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
        let context = context().await;
        let shape = Shape::new(4 * 128 * block.len(), 1, 1, 1);
        let blocks = TensorGpu::from_data_u8(&context, shape, &block.repeat(4 * 128)).unwrap();
        let matrix: TensorGpu<u8, ReadWrite> = context.tensor_init([4096, 4, 1, 1]);
        let ones: TensorGpu<f32, ReadWrite> = context.tensor_from_data([4096, 1, 1, 1], vec![1.0; 4096]).unwrap();
        let products: TensorGpu<f32, ReadWrite> = context.tensor_init([4, 1, 1, 1]);
        let product = TensorOp::matmul_vec_q8_0(&blocks, &matrix, &ones, &products, Activation::None).unwrap();
        context.queue.submit(context.encode(&product));
        products.back().await.to_vec()
    })
}

/// The 34 bytes of ggml's blocks. With 36, the products are right today.
#[test]
#[should_panic(expected = "blocks of Q8_0 are read at other places")]
fn a_product_of_q8_0_reads_blocks_of_34_bytes() {
    assert_eq!(products(2), [4096.0; 4], "the program is wrong");
    assert_eq!(products(0), [4096.0; 4], "blocks of Q8_0 are read at other places");
}
