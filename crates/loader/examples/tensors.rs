//! Lists the weights of a model file: name, shape, format, and the largest number in each.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a model file")?;
    let model = wgoose_loader::Model::open(path)?;
    for weight in wgoose_graph::Weight::all(model.shape()) {
        let tensor = model.tensor(weight);
        let largest = tensor.to_f32().into_iter().fold(0.0, |largest: f32, number| largest.max(number.abs()));
        println!("{weight}: {} x {} in {}, up to {largest}", tensor.rows(), tensor.cols(), tensor.format());
    }
    Ok(model.check_unchanged()?)
}
