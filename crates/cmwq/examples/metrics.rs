//! Statistics of queues and pools as Prometheus reads them: `cargo run -p cmwq --features metrics
//! --example metrics`.
//!
//! A program that is scraped gives `render()`'s text to whoever asks for `/metrics`.

use std::thread::sleep;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;

#[expect(clippy::print_stdout, reason = "it is what the example shows")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The recorder alone; how the text leaves the process is the program's choice.
    let prometheus = PrometheusBuilder::new().install_recorder()?;

    let wq = cmwq::Workqueue::new("fetch")?;
    let pages: Vec<_> = (0..20).map(|_| wq.queue(|| sleep(Duration::from_millis(2)))).collect();
    pages.into_iter().try_for_each(cmwq::JoinHandle::join)?;

    // Before each scrape: the counters as they are now.
    cmwq::metrics::record();
    println!("{}", prometheus.render());
    Ok(())
}
