//! The smallest useful program.
fn main() -> Result<(), cmwq::Error> {
    let wq = cmwq::Workqueue::new("hello")?;
    let answer = wq.queue(|| 6 * 7);
    println!("the answer is {:?}", answer.join());
    Ok(())
}
