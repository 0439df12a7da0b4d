//! The smallest useful program.
#![expect(clippy::print_stdout, reason = "it is what an example is for")]

fn main() -> Result<(), cmwq::Error> {
    let wq = cmwq::Workqueue::new("hello")?;
    let answer = wq.queue(|| 6 * 7);
    println!("the answer is {}", answer.join().expect("multiplying does not panic"));
    Ok(())
}
