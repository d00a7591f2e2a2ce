package coco_test

import (
	"testing"

	"github.com/sluice-scheduler/sluice/costmodels/coco"
	"github.com/sluice-scheduler/sluice/costmodels/modeltest"
)

func TestConformance(t *testing.T) { modeltest.Run(t, coco.Model{}) }
