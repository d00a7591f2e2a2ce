//go:build linux

package local_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/sluice-scheduler/sluice/cluster"
	"github.com/sluice-scheduler/sluice/hostmgr"
	"github.com/sluice-scheduler/sluice/hostmgr/drivertest"
	"github.com/sluice-scheduler/sluice/hostmgr/local"
)

// A program that uses the driver calls local.Supervise first in main.
func Example() {
	dir, err := os.MkdirTemp("", "sluice-example-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	driver, err := local.New(local.Config{Dir: dir, Hosts: 4})
	check(err)
	ctx := context.Background()
	check(driver.Start(ctx, drivertest.NewRecorder())) // a scheduler's sink goes here

	run := cluster.RunID{Task: cluster.MakeTaskKey(1, 0), Run: 1}
	check(driver.Launch(ctx, hostmgr.Launch{Run: run, Host: "h2", Task: cluster.TaskSpec{Processes: []cluster.Process{{Command: []string{"sh", "-c", "echo $SLUICE_RUN_ID on $SLUICE_HOST"}}}}}))
	log, err := driver.OpenLog(ctx, hostmgr.LogRequest{Run: run, Follow: true}) // ends with the run
	check(err)
	output, err := io.ReadAll(log)
	check(err)
	fmt.Print(string(output))
	fmt.Println(driver.Inventory()[0].State)
	check(log.Close())
	check(driver.Close())
	// Output:
	// 1.0.1 on h2
	// SUCCEEDED
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
