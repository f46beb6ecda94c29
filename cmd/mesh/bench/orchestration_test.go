//go:build linux

package bench_test

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// atWork is how long an agent works of which many work at once.
const atWork = 5 * time.Millisecond

// schedulerBench prints "x-goroutine" and "ns/node".
const schedulerBench = "^BenchmarkScheduler$/^random of 10000$"

// prepareFan starts the agent that has others work.
func (b *bench) prepareFan(ctx context.Context, t cleaner) error {
	fan, err := b.build(ctx, top, "fan", "testdata/fan/main.go")
	if err != nil {
		return err
	}
	cmd := exec.Command(fan)
	cmd.Env = environment(toEnv+"="+b.mesh.conn.Target(), "BENCH_AGENT="+b.agent)
	if _, err = b.help(t, cmd); err != nil || !b.others {
		return err
	}
	return b.compile(ctx, top, "scheduler", "./mesh/dispatch")
}

// fan has so many agents work at once, and returns how many µs it took, and the same over
// streams with nothing around them.
func (b *bench) fan(ctx context.Context, n int, works time.Duration) (took, bare float64, err error) {
	text := ""
	err = b.mesh.doors["grpc"](as(ctx, "default", "fan"), fmt.Sprintf("fan %d: %v", n, question{chunks: 1, every: works}), func(s string) error {
		text += s
		return nil
	})
	if err == nil {
		_, err = fmt.Sscanf(text, "took %f bare %f", &took, &bare)
	}
	return took, bare, err
}

// orchestration measures what it takes to have other agents work: one that does nothing,
// beside a bare stream to it and beside one fdatasync, and many that work a while, beside one.
func (b *bench) orchestration(ctx context.Context, r round, _ int) error {
	var one, bare, sync []float64
	for range b.alone {
		took, stream, err := b.fan(ctx, 1, 0)
		if err != nil {
			return err
		}
		disk, err := b.fewSyncs()
		if err != nil {
			return err
		}
		one, bare, sync = append(one, took), append(bare, stream), append(sync, disk)
	}
	r["mesh sub-agent"], r["bare sub-agent"], r["fdatasync beside sub-agent"] = median(one), median(bare), median(sync)
	r["mesh sub-agent over"] = (r["mesh sub-agent"] - r["bare sub-agent"]) / r["fdatasync beside sub-agent"]
	took := map[int][]float64{}
	for range max(1, b.alone/8) {
		for _, n := range []int{1, 32, 128} {
			some, _, err := b.fan(ctx, n, atWork)
			if err != nil {
				return err
			}
			took[n] = append(took[n], some)
		}
	}
	for n, values := range took {
		r[fmt.Sprintf("mesh %d at work", n)] = median(values)
	}
	for _, n := range []int{0, 32} {
		name := fmt.Sprintf("mesh fan of %d", n)
		if err := b.timed(r, name, b.mesh, 1, func(int) error { _, _, err := b.fan(ctx, n, 0); return err }); err != nil {
			return err
		}
	}
	r["mesh sub-agent cpu"] = (r["mesh fan of 32 cpu"] - r["mesh fan of 0 cpu"]) / 32
	for name, n := range map[string]int{"fan of 0": 0, "fan of 1": 1} {
		if err := b.count(r, b.mesh, counted{name, 1, b.alone, func(int) error { _, _, err := b.fan(ctx, n, 0); return err }}); err != nil {
			return err
		}
	}
	if with, ok := r["mesh fdatasyncs fan of 1"]; ok {
		r["mesh fdatasyncs sub-agent"] = with - r["mesh fdatasyncs fan of 0"]
	}
	return b.schedule(r)
}

// schedule measures what the scheduler's own benchmark prints, on all cores.
func (b *bench) schedule(r round) error {
	bin, there := b.bins["scheduler"]
	if !there {
		return nil
	}
	got, err := b.figures(exec.Command(bin, "-test.run=^$", "-test.benchtime=10x", "-test.bench="+schedulerBench), "ns/node", "x-goroutine")
	if err != nil {
		return err
	}
	r["mesh scheduler"], r["mesh scheduler ns"] = got["x-goroutine"], got["ns/node"]
	return nil
}
