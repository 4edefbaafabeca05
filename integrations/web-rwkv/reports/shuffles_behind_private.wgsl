// Every invocation of a subgroup runs the loop equally often. Only the function that sets `rounds` can tell.
@group(0) @binding(0) var<storage, read_write> numbers: array<u32>;

var<private> rounds: u32;

fn prepare() {
    rounds = 4u;
}

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) index: u32) {
    prepare();
    var sum = numbers[index];
    for (var i = 0u; i < rounds; i++) {
        sum += subgroupShuffleXor(sum, 1u << i);
    }
    numbers[index] = sum;
}
