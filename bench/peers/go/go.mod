module cmwq-bench/go-peer

go 1.22
