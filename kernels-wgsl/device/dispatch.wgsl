// Dispatches are one-dimensional; beyond 65,535 workgroups they are folded into y.

fn workgroup_index(workgroup: vec3<u32>, grid: vec3<u32>) -> u32 {
    return workgroup.y * grid.x + workgroup.x;
}
